"""What migrate.py is made of: the journal, the workers, one object's copy, Ceph's pools."""
