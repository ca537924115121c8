# Sourced by scripts: packages of another Debian, or of another architecture, unpacked in a folder.

# deb SUITE ARCHITECTURE FOLDER PACKAGE...: into FOLDER/unpacked, by apt-get with lists of its own,
# so that nothing of this machine's changes.
deb() {
    suite=$1 architecture=$2 folder=$3
    shift 3
    site=$(apt-get indextargets --format '$(SITE) $(COMPONENT)' 'Created-By: Packages' |
        sed -n 's/^\(.*debian\/*\) main$/\1/p' | head -1)
    [ -n "$site" ] || return 1
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/unpacked"
    folder=$(cd "$folder" && pwd)
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    : >"$folder/apt/status"
    # Lists of a release to come may be past their date; they are signed all the same.
    echo "deb [arch=$architecture signed-by=$keys check-valid-until=no] $site $suite main" \
        >"$folder/apt/sources.list"
    cat >"$folder/apt/conf" <<END
Dir::Etc::SourceList "$folder/apt/sources.list";
Dir::Etc::SourceParts "-";
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt";
APT::Architecture "$architecture";
APT::Architectures "$architecture";
APT::Sandbox::User "root";
Acquire::Languages "none";
END
    (
        cd "$folder" || exit 1
        export APT_CONFIG="$folder/apt/conf"
        apt-get -q update && apt-get -q download "$@" || exit 1
        for file in *.deb; do dpkg -x "$file" unpacked || exit 1; done
    )
}
