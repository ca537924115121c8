use super::*;

#[test]
fn files_that_others_can_read_or_that_are_no_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    assert!(ClusterKey::load(&path).is_err());
    ClusterKey::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let error = ClusterKey::load(&path).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for text in ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        fs::write(&path, text).unwrap();
        assert!(ClusterKey::load(&path).is_err(), "{text:?}");
    }
}

/// Both sides of a handshake in memory; the role that the serving side sees.
fn meet(client: &ClusterKey, server: &ClusterKey) -> Result<Option<PeerRole>, rustls::Error> {
    let name = ClusterKey::name().unwrap();
    let mut client = rustls::ClientConnection::new(client.client(), name).unwrap();
    let mut server = rustls::ServerConnection::new(server.server()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets()?;
    }
    Ok(ClusterKey::rights(&server.peer_certificates().unwrap()[0]).map(|rights| rights.role))
}

const DAY: Duration = Duration::from_secs(86_400);

/// A key file with the text of others, one after the other.
fn joined(folder: &Path, name: &str, of: &[&str]) -> ClusterKey {
    let text: String = of.iter().map(|of| fs::read_to_string(folder.join(of)).unwrap()).collect();
    write_new(&folder.join(name), &text).unwrap();
    ClusterKey::load(&folder.join(name)).unwrap()
}

#[test]
fn keys_say_who_somebody_is_and_clients_cannot_serve() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let cluster = ClusterKey::create(&path("cluster")).unwrap();
    assert_eq!(meet(&cluster, &cluster).unwrap(), Some(PeerRole::Administrator));
    let mut issued = Vec::new();
    for role in PeerRole::ALL {
        let file = path(&role.to_string());
        cluster.issue(&file, role, DAY).unwrap();
        assert!(cluster.issue(&file, role, DAY).is_err(), "no file is overwritten");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        issued.push((role, ClusterKey::load(&file).unwrap()));
    }
    let other = ClusterKey::create(&path("other")).unwrap();
    for (role, key) in &issued {
        assert_eq!(meet(key, &cluster).unwrap(), Some(*role));
        let serves = matches!(role, PeerRole::Agent | PeerRole::Administrator);
        assert_eq!(meet(&cluster, key).is_ok(), serves, "{role}");
        assert!(meet(key, &other).is_err() && meet(&other, key).is_err());
        let why = key.issue(&path("x"), PeerRole::Client, DAY).unwrap_err().to_string();
        assert!(why.contains("only the cluster key"), "{why}");
    }
    let agent = &issued.iter().find(|(role, _)| *role == PeerRole::Agent).unwrap().1;
    for (role, key) in &issued {
        assert_eq!(meet(key, agent).unwrap(), Some(*role));
    }
}

#[test]
fn a_key_for_a_prefix_says_so_and_is_none_of_its_role_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let cluster = ClusterKey::create(&path("cluster")).unwrap();
    for (at, prefix) in ["photos/", "Ü b%41/", &"x".repeat(100)].into_iter().enumerate() {
        let rights = Rights { role: PeerRole::Writer, prefix: Some(prefix.into()) };
        let file = path(&at.to_string());
        cluster.issue(&file, rights.clone(), DAY).unwrap();
        let key = ClusterKey::load(&file).unwrap();
        assert_eq!(key.holder(), Some(rights));
        assert_eq!(cluster.issued().unwrap()[at].prefix.as_deref(), Some(prefix));
        // Agents of before look for the names of roles alone.
        let shown = CertificateDer::from_pem_file(&file).unwrap();
        let shown = webpki::EndEntityCert::try_from(&shown).unwrap();
        let roles = PeerRole::ALL.map(|role| role_name(role, false));
        assert!(!shown.valid_dns_names().any(|name| name == NAME || roles.contains(&name.into())));
        assert!(meet(&key, &cluster).is_ok() && meet(&cluster, &key).is_err());
    }
}

#[test]
fn a_cluster_key_is_changed_without_a_moment_of_disagreement() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let old = ClusterKey::create(&path("old")).unwrap();
    let new = ClusterKey::create(&path("new")).unwrap();
    assert!(meet(&old, &new).is_err());
    let before = joined(folder.path(), "before", &["old", "new"]);
    let after = joined(folder.path(), "after", &["new", "old"]);
    for (one, two) in [(&old, &before), (&before, &after), (&after, &new)] {
        assert!(meet(one, two).is_ok() && meet(two, one).is_ok());
    }
    assert!(meet(&old, &after).is_err());
    // Keys that were issued under both are trusted by both, as the first of them.
    before.issue(&path("agent"), PeerRole::Agent, DAY).unwrap();
    let agent = ClusterKey::load(&path("agent")).unwrap();
    assert!(meet(&old, &agent).is_ok() && meet(&new, &agent).is_err());
    assert!(meet(&agent, &after).is_ok() && meet(&after, &agent).is_ok());
    let many: Vec<&str> = ["old", "new"].into_iter().cycle().take(KEYS_MAX + 1).collect();
    let text: String = many.iter().map(|of| fs::read_to_string(path(of)).unwrap()).collect();
    write_new(&path("many"), &text).unwrap();
    assert!(ClusterKey::load(&path("many")).is_err());
}

#[test]
fn issued_keys_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let cluster = ClusterKey::create(&path("cluster")).unwrap();
    cluster.issue(&path("short"), PeerRole::Client, Duration::ZERO).unwrap();
    let why = ClusterKey::load(&path("short")).unwrap_err().to_string();
    assert!(why.contains("has ended"), "{why}");
    // A key file that was edited is not trusted by others.
    let text = fs::read_to_string(path("short")).unwrap();
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with(ENDS))
        .fold(String::new(), |text, line| text + line + "\n");
    write_new(&path("changed"), &text).unwrap();
    let changed = ClusterKey::load(&path("changed")).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let why = meet(&changed, &cluster).unwrap_err().to_string();
    assert!(why.to_lowercase().contains("expired"), "{why}");
}

#[test]
fn a_revoked_key_is_known_by_its_certificate_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let cluster = ClusterKey::create(&path("cluster")).unwrap();
    let files = ["one", "two"].map(|name| {
        cluster.issue(&path(name), PeerRole::Writer, DAY).unwrap();
        path(name)
    });
    let shown = files.map(|file| CertificateDer::from_pem_file(file).unwrap());
    let listed = cluster.issued().unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|key| key.role == "writer" && !key.revoked), "{listed:?}");
    let revoked = || shown.each_ref().map(|shown| cluster.is_revoked(shown));
    assert_eq!(revoked(), [false, false]);
    assert!(cluster.revoke("0123456789abcdef").is_err());
    cluster.revoke(&listed[0].id).unwrap();
    assert_eq!(revoked(), [true, false]);
    assert_eq!(cluster.issued().unwrap().iter().filter(|key| key.revoked).count(), 1);
    // A list that cannot be read lets no key in.
    fs::write(path("cluster.revoked"), [0xff, 0xfe]).unwrap();
    assert_eq!(revoked(), [true, true]);
}
