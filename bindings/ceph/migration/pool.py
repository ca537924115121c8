"""A pool of Ceph, object by object."""

from migration.errors import MigrationError


def rados():
    """Ceph's Python module, which comes with the system's own Python."""
    try:
        import rados as module
        return module
    except ImportError:
        raise MigrationError(
            "no Python module rados here; Debian's is for /usr/bin/python3") from None


class Pool:
    """One thread's view of a pool: namespace, locator and last version are the connection's."""

    def __init__(self, connection, name):
        self.io = connection.open_ioctx(name)
        self.name = name
        self.gone = rados().ObjectNotFound

    def objects(self):
        """Namespace, locator and name of every object."""
        self.io.set_namespace(rados().LIBRADOS_ALL_NSPACES)
        found = {(o.nspace or "", o.locator_key or "", o.key) for o in self.io.list_objects()}
        return sorted(found)

    def at(self, key):
        """Turns to an object; what to call it."""
        namespace, locator, name = key
        self.io.set_namespace(namespace)
        self.io.set_locator_key(locator)
        return name

    def state(self, key):
        """Size and version of an object, or nothing when it is gone."""
        name = self.at(key)
        try:
            size, _ = self.io.stat(name)
        except self.gone:
            return None
        return size, self.io.get_last_version()

    def attributes(self, key):
        return dict(self.io.get_xattrs(self.at(key)))

    def pieces(self, key, length):
        """The bytes of an object, in pieces."""
        name, offset = self.at(key), 0
        while True:
            piece = self.io.read(name, length, offset)
            if piece:
                yield piece
            if len(piece) < length:
                return
            offset += len(piece)

    def write(self, key, piece, first):
        """The first piece of an object, or the next."""
        (self.io.write_full if first else self.io.append)(self.at(key), piece)

    def mark(self, key, attributes):
        name = self.at(key)
        for attribute, value in attributes.items():
            self.io.set_xattr(name, attribute, value)

    def remove(self, key):
        self.io.remove_object(self.at(key))
