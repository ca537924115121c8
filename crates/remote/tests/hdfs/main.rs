//! The backend against a small server of our own and, where `KILN_HDFS` names a folder of one, a
//! real HDFS: the contract of places, long files, faults, refusals.

mod fake;
#[path = "../shared/locks.rs"]
mod locks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fake::Fake;
use kiln_remote::hdfs::FolderBackend;
use kiln_store::{
    Backend, BatchRead, Existing, Locality, Located, Location, Locks, NewFile, PlaceInfo,
    StoreError, write_whole,
};
use kiln_testkit::{battery::check_all, battery::read, pattern};
use locks::{never_together, taken_over};

static COUNT: AtomicU32 = AtomicU32::new(0);

fn open(url: &str) -> FolderBackend {
    FolderBackend::open(&Location::of(url.as_ref())).unwrap()
}

/// All that a place can do, what it does file by file too.
fn any(disk: &FolderBackend) -> &dyn Backend {
    disk
}

/// Makes folders in one HDFS.
type Maker = Box<dyn Fn() -> String>;

/// A way to a new folder in each HDFS that there is, and what it is called. The real one is said as
/// `namenode:port datanode:port`.
fn all() -> Vec<(&'static str, Maker)> {
    let mut all: Vec<(&'static str, Maker)> = vec![("fake", {
        let fake = Fake::start();
        Box::new(move || {
            let path = format!("/test/{}", COUNT.fetch_add(1, Ordering::Relaxed));
            fake.mkdir(&path);
            let server = fake.authority();
            format!("hdfs://{server}{path}?datanode={server}&timeout=5")
        })
    })];
    if let Ok(real) = std::env::var("KILN_HDFS") {
        let (namenode, datanode) = real.split_once(' ').unwrap();
        let (namenode, datanode) = (namenode.to_owned(), datanode.to_owned());
        all.push((
            "real",
            Box::new(move || {
                let id = COUNT.fetch_add(1, Ordering::Relaxed);
                let path = format!("/test-{}/{id}", std::process::id());
                mkdir(&namenode, &path);
                format!("hdfs://{namenode}{path}?datanode={datanode}&user=root")
            }),
        ));
    }
    all
}

fn mkdir(namenode: &str, path: &str) {
    let url = format!("http://{namenode}/webhdfs/v1{path}?op=MKDIRS&user.name=root");
    let done = std::process::Command::new("curl").args(["-sf", "-X", "PUT", &url]).status();
    assert!(done.unwrap().success(), "{url}");
}

fn fake(options: &str) -> (Fake, FolderBackend) {
    let fake = Fake::start();
    fake.mkdir("/p");
    let server = fake.authority();
    let disk = open(&format!("hdfs://{server}/p?datanode={server}&timeout=2{options}"));
    (fake, disk)
}

#[test]
fn the_contract_of_places_holds() {
    for (name, folder) in all() {
        check_all(name, &mut || Arc::new(open(&folder())));
    }
}

#[test]
fn long_files_are_streamed_gone_on_with_and_read_in_ranges() {
    for (_, folder) in all() {
        let disk = open(&folder());
        let bytes = pattern(5_000_000);
        let mut file = disk.append("a", 0).unwrap();
        for piece in bytes[..3_000_000].chunks(77_777) {
            file.append(piece).unwrap();
        }
        file.sync().unwrap();
        assert_eq!(read(&disk, "a"), bytes[..3_000_000]);
        file.append(&bytes[3_000_000..]).unwrap();
        file.complete().unwrap();
        assert!(file.append(b"more").is_err());
        drop(file);
        assert_eq!(disk.list().unwrap(), ["a"]);
        let file = disk.open("a").unwrap();
        let mut pieces = vec![vec![0; 1000]; 20];
        let mut batch: Vec<BatchRead<'_>> = (pieces.iter_mut().enumerate())
            .map(|(at, piece)| BatchRead::new(at as u64 * 240_000 + 13, piece))
            .collect();
        let before = disk.io_counters();
        file.read_batch(&mut batch).unwrap();
        let after = disk.io_counters();
        assert_eq!((after.0 - before.0, after.1 - before.1), (20, 20_000));
        for (at, piece) in pieces.iter().enumerate() {
            assert_eq!(*piece, bytes[at * 240_000 + 13..][..1000]);
        }
        // Gone on with in the middle, as a repair does that was interrupted.
        let mut file = disk.append("a", 2_222_222).unwrap();
        file.append(&bytes[2_222_222..]).unwrap();
        file.sync().unwrap();
        assert!(read(&disk, "a") == bytes);
    }
}

#[test]
fn names_of_all_kinds_and_pages_of_them_are_told() {
    for (_, folder) in all() {
        let disk = open(&folder());
        let mut names: Vec<String> = (0..20).map(|at| format!("f{at:02}")).collect();
        names.extend(["a b+c%20d".to_owned(), "ü=&?#'.kiln".to_owned()]);
        names.sort();
        names.iter().for_each(|name| write_whole(&disk, name, name.as_bytes()).unwrap());
        assert_eq!(disk.list().unwrap(), names);
        assert!(names.iter().all(|name| read(&disk, name) == name.as_bytes()));
        assert!(disk.modified("f00").unwrap().is_some());
    }
}

/// Adds to a file, of the length that it has.
fn add(disk: &dyn Backend, name: &str, at: usize, bytes: &[u8]) {
    let mut file = disk.append(name, at as u64).unwrap();
    file.append(bytes).unwrap();
    file.complete().unwrap();
}

#[test]
fn a_file_that_grows_bit_by_bit_is_whole_at_any_time_and_has_few_blocks() {
    for (_, folder) in all() {
        let disk = open(&folder());
        let bytes = pattern(40_000);
        for at in (0..3_200).step_by(320) {
            add(&disk, "log", at, &bytes[at..at + 320]);
            assert_eq!(read(&disk, "log"), bytes[..at + 320]);
        }
        // Cut, as after a record that was cut short, and written further by the same writer.
        let mut file = disk.append("log", 1_000).unwrap();
        assert_eq!(read(&disk, "log"), bytes[..1_000]);
        for at in [1_000, 9_000] {
            file.append(&bytes[at..at + 8_000]).unwrap();
            file.sync().unwrap();
            assert_eq!(read(&disk, "log"), bytes[..at + 8_000]);
        }
        drop(file);
        // Beyond what is written anew each time.
        for at in (17_000..20_000).step_by(500) {
            add(&disk, "log", at, &bytes[at..at + 500]);
        }
        assert_eq!(read(&disk, "log"), bytes[..20_000]);
        assert_eq!(disk.list().unwrap(), ["log"]);
    }
    let (fake, disk) = fake("");
    for at in (0..1 << 16).step_by(512) {
        add(&disk, "log", at, &[at as u8; 512]);
        let parts: usize = fake.ask("hdfs.parts_of('/p/log')");
        assert!(parts == 1 || (at >= 16 << 10 && parts <= 8), "{parts} at {at}");
    }
}

#[test]
fn what_an_addition_asks_for_is_counted() {
    let (fake, disk) = fake("");
    write_whole(&disk, "log", &pattern(640)).unwrap();
    let asked = || {
        let (log, _): (Vec<String>, u64) = fake.ask("hdfs.taken()");
        let operation = |line: &String| line.split(' ').nth(1).unwrap().to_owned();
        log.iter().map(operation).collect::<Vec<String>>()
    };
    asked();
    add(&disk, "log", 640, &[1; 32]);
    let (find, read) = (["GETFILESTATUS"], ["OPEN", "OPEN"]);
    let write = ["CREATE", "CREATE", "GET_BLOCK_LOCATIONS"];
    assert_eq!(asked(), [&find[..], &read, &write, &["RENAME"]].concat());
    // A long one is neither read nor written again.
    write_whole(&disk, "log", &pattern(100_000)).unwrap();
    asked();
    add(&disk, "log", 100_000, &[1; 32]);
    assert_eq!(asked(), [&find[..], &write, &["CONCAT"]].concat());
}

#[test]
fn an_addition_that_fails_leaves_what_was_there() {
    let (fake, disk) = fake("");
    for fault in 0..2 {
        write_whole(&disk, "log", &pattern(640)).unwrap();
        let mut file = disk.append("log", 640).unwrap();
        file.append(&[1; 32]).unwrap();
        match fault {
            0 => fake.run("hdfs.safe_mode = True"),
            _ => fake.run("hdfs.astray = 1 << 60"),
        }
        assert!(file.sync().is_err());
        drop(file);
        fake.run("hdfs.no_faults()");
        assert_eq!((read(&disk, "log"), disk.list().unwrap()), (pattern(640), vec!["log".into()]));
    }
}

#[test]
fn what_is_replaced_while_it_is_read_is_never_mixed() {
    for (_, folder) in all() {
        let disk = open(&folder());
        write_whole(&disk, "a", &pattern(5000)).unwrap();
        let file = disk.open("a").unwrap();
        let mut buf = [0; 100];
        file.read_at(50, &mut buf).unwrap();
        write_whole(&disk, "a", &[9; 5000]).unwrap();
        let error = file.read_at(50, &mut buf).unwrap_err();
        assert!(error.to_string().contains("replaced while it was read"), "{error}");
    }
}

#[test]
fn two_programs_never_have_the_lock_together() {
    for (_, folder) in all() {
        let url = folder();
        let (one, two) = (open(&url), open(&url));
        never_together(&one, &two);
    }
}

#[test]
fn a_lock_whose_holder_is_gone_is_taken_over_and_the_late_one_writes_no_more() {
    for (_, folder) in all() {
        let url = folder();
        let left = b"process 7 on elsewhere\n";
        taken_over(&open(&url), &open(&url), left, b"process 8\n");
    }
}

#[test]
fn a_lock_that_stood_still_is_renewed_unless_somebody_took_it() {
    let ((kept, disk), (taken, lost)) = (fake(""), fake(""));
    let held = (disk.lock(false).unwrap().unwrap(), lost.lock(false).unwrap().unwrap());
    kept.run("hdfs.still = True");
    taken.run("hdfs.still = True");
    std::thread::sleep(Duration::from_secs(21));
    // Somebody believes that the second one is gone.
    let other = open(&lost.place());
    write_whole(&other, ".kiln-lock", b"process 8\n").unwrap();
    let theirs = other.modified(".kiln-lock").unwrap();
    // Nobody knows whether they are still held: writes wait until that is certain.
    std::thread::scope(|scope| {
        let late = scope.spawn(|| write_whole(&disk, "a", b"late"));
        let too_late = scope.spawn(|| write_whole(&lost, "a", b"late"));
        std::thread::sleep(Duration::from_secs(2));
        assert!(!late.is_finished() && !too_late.is_finished());
        assert!(disk.list().unwrap().is_empty());
        kept.run("hdfs.still = False");
        taken.run("hdfs.still = False");
        late.join().unwrap().unwrap();
        assert!(too_late.join().unwrap().unwrap_err().is_fenced());
    });
    drop(held);
    assert_eq!(read(&disk, "a"), b"late");
    assert_eq!(
        (other.list().unwrap(), read(&other, ".kiln-lock")),
        (vec![], b"process 8\n".into())
    );
    assert_eq!(other.modified(".kiln-lock").unwrap(), theirs);
}

#[test]
fn a_folder_that_is_missing_is_said_and_not_made() {
    for (_, folder) in all() {
        let url = folder().replace("?", "/missing?");
        let disk = open(&url);
        let keep = NewFile { existing: Existing::Keep, ..NewFile::named("a") };
        let errors = [
            disk.list().unwrap_err(),
            disk.open("a").err().unwrap(),
            write_whole(&disk, "a", b"a").unwrap_err(),
            any(&disk).create(&keep).unwrap().complete().unwrap_err(),
            disk.lock(false).unwrap_err(),
        ];
        for error in errors {
            assert!(!error.is_not_found(), "{error}");
            assert!(error.to_string().contains("hdfs dfs -mkdir -p"), "{error}");
        }
        assert!(disk.list().is_err());
    }
}

#[test]
fn what_passes_is_tried_again() {
    let (fake, disk) = fake("");
    for _ in 0..4 {
        fake.run("hdfs.busy = 2");
        write_whole(&disk, "a", &pattern(5000)).unwrap();
        fake.run("hdfs.busy = 2");
        assert_eq!(disk.list().unwrap(), ["a"]);
        fake.run("hdfs.short = 2");
        assert_eq!(read(&disk, "a"), pattern(5000));
        fake.run("hdfs.late = 2");
        any(&disk).write_all(&[("a", &pattern(6000))]).pop().unwrap().unwrap();
        assert_eq!((read(&disk, "a"), fake.ask("hdfs.late")), (pattern(6000), 0));
        write_whole(&disk, "a", &pattern(5000)).unwrap();
        fake.run("hdfs.lost = 1");
        disk.rename("a", "b").unwrap();
        assert_eq!(read(&disk, "b"), pattern(5000));
        disk.remove("b").unwrap();
    }
    // And not for ever.
    fake.run("hdfs.busy = 1 << 60");
    let begin = Instant::now();
    assert!(disk.list().is_err() && write_whole(&disk, "a", b"a").is_err());
    assert!(begin.elapsed() < Duration::from_secs(60));
    fake.run("hdfs.busy = 0");
    assert!(disk.list().unwrap().is_empty());
}

#[test]
fn what_is_put_elsewhere_is_noticed_and_put_again_or_refused() {
    let (fake, disk) = fake("");
    fake.run("hdfs.astray = 2");
    write_whole(&disk, "a", b"small").unwrap();
    assert_eq!((fake.ask("hdfs.astray"), read(&disk, "a")), (0, b"small".to_vec()));
    // What was streamed is not there a second time.
    fake.run("hdfs.astray = 1");
    let mut file = disk.append("b", 0).unwrap();
    file.append(&pattern(3_000_000)).unwrap();
    let error = file.sync().unwrap_err();
    assert!(error.to_string().contains("considerLoad"), "{error}");
    drop(file);
    fake.run("hdfs.astray = 1 << 60");
    let error = write_whole(&disk, "c", b"c").unwrap_err();
    assert!(error.to_string().contains("HDFS put it on localhost:1"), "{error}");
    assert_eq!(disk.list().unwrap(), ["a"]);
}

#[test]
fn the_other_namenode_is_asked_where_one_is_on_standby_or_gone() {
    let fake = Fake::start();
    fake.mkdir("/p");
    let (first, other): (_, u16) = (fake.authority(), fake.ask("hdfs.another()"));
    let place = |namenode: &str, standby: &str| {
        open(&format!("hdfs://{namenode}/p?standby={standby}&datanode={first}&timeout=2"))
    };
    let both = place(&first, &format!("127.0.0.1:{other}"));
    let port = |server: &str| server.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    for (at, standby) in [other, port(&first), other, port(&first)].into_iter().enumerate() {
        fake.run(&format!("hdfs.standby = [{standby}]"));
        let name = format!("f{at}");
        write_whole(&both, &name, &pattern(5000)).unwrap();
        assert_eq!(read(&both, &name), pattern(5000));
        // A standby's answer is no try whose end nobody knows.
        let missing = both.rename("missing", &name).unwrap_err();
        assert!(missing.is_not_found(), "{missing}");
    }
    // Nothing listens at one of them.
    let gone = place("127.0.0.1:1", &format!("127.0.0.1:{other}"));
    assert_eq!(read(&gone, "f1"), pattern(5000));
    let lock = gone.lock(false).unwrap();
    assert!(lock.is_some() && both.lock(false).unwrap().is_none());
    // Both are on standby: it is waited for, then said.
    fake.run(&format!("hdfs.standby = [{other}, hdfs.port]"));
    let error = both.open("f0").err().unwrap().to_string();
    assert!(error.contains("standby"), "{error}");
}

#[test]
fn what_hdfs_moved_is_read_seen_and_brought_back() {
    let (fake, disk) = fake("");
    for (name, len) in [("a", 0), ("b", 5000), ("c", 3_000_000)] {
        write_whole(&disk, name, &pattern(len)).unwrap();
        assert_eq!(disk.locality(name).unwrap(), Located::Here);
        fake.ask::<u64>(&format!("hdfs.moved('/p', '{name}')"));
        let Located::Away(there) = disk.locality(name).unwrap() else { panic!("{name}") };
        assert_eq!((there, read(&disk, name)), ("localhost:1".to_owned(), pattern(len)));
        // Not while its DataNode takes nothing.
        fake.run("hdfs.astray = 1 << 60");
        let refused = disk.copy_local(name, "copy").unwrap_err();
        assert!(refused.to_string().contains("HDFS put it on"), "{refused}");
        fake.run("hdfs.astray = 0");
        assert_eq!(read(&disk, name), pattern(len));
        disk.copy_local(name, "copy").unwrap();
        disk.rename("copy", name).unwrap();
        assert_eq!(disk.locality(name).unwrap(), Located::Here);
        assert_eq!(read(&disk, name), pattern(len));
    }
    assert_eq!(disk.list().unwrap(), ["a", "b", "c"]);
    assert!(disk.locality("d").unwrap_err().is_not_found());
    let anywhere = open(disk.place().split('?').next().unwrap());
    assert_eq!(anywhere.locality("a").unwrap(), Located::Unmanaged);
}

#[test]
fn a_stream_that_is_dropped_never_looks_whole() {
    let (fake, disk) = fake("");
    let mut file = any(&disk).create(&NewFile::named("a")).unwrap();
    for _ in 0..30 {
        file.write(&pattern(100_000)).unwrap();
    }
    drop(file);
    assert!(disk.list().unwrap().is_empty());
    assert!(!fake.ask::<Vec<String>>("hdfs.log").iter().any(|line| line.contains("RENAME")));
}

#[test]
fn safe_mode_is_said_before_anything_is_written() {
    let (fake, disk) = fake("");
    write_whole(&disk, "a", b"a").unwrap();
    fake.run("hdfs.safe_mode = True");
    let errors: [StoreError; 3] = [
        write_whole(&disk, "b", b"b").unwrap_err(),
        disk.lock(false).unwrap_err(),
        disk.remove("a").unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("safe mode"), "{error}");
    }
    assert_eq!((disk.list().unwrap(), read(&disk, "a")), (vec!["a".to_owned()], b"a".to_vec()));
}

#[test]
fn ranges_fetch_what_was_asked_for_and_no_more() {
    let (fake, disk) = fake("");
    write_whole(&disk, "a", &pattern(200_000)).unwrap();
    let file = disk.open("a").unwrap();
    fake.ask::<(Vec<String>, u64)>("hdfs.taken()");
    let mut buf = [0; 777];
    for at in [5, 100_000, 199_223] {
        file.read_at(at, &mut buf).unwrap();
        assert_eq!(buf, pattern(200_000)[at as usize..][..777]);
    }
    let (log, sent): (Vec<String>, u64) = fake.ask("hdfs.taken()");
    // The NameNode was asked once.
    assert_eq!((log.len(), sent), (4, 3 * 777), "{log:?}");
}

#[test]
fn blocks_of_this_machine_are_looked_up_once_and_anew_when_they_are_others() {
    let folder = std::env::temp_dir().join(format!("kiln-hdfs-blocks-{}", std::process::id()));
    let (fake, disk) = fake(&format!("&blocks={}", folder.display()));
    fake.run(&format!("hdfs.disk = '{}'", folder.display()));
    // How often the NameNode was asked for locations since, and what came from DataNodes.
    let asked = || {
        let (log, sent): (Vec<String>, u64) = fake.ask("hdfs.taken()");
        let of_number = |line: &&String| line.starts_with("GET GET_BLOCK_LOCATIONS /.reserved");
        (log.iter().filter(of_number).count(), sent)
    };
    write_whole(&disk, "a", &pattern(5000)).unwrap();
    assert_eq!((disk.open("a").unwrap().len(), asked()), (5000, (0, 0)));
    assert_eq!((read(&disk, "a"), asked()), (pattern(5000), (1, 0)));
    assert_eq!((read(&disk, "a"), asked()), (pattern(5000), (0, 0)));
    // It grows, and is cut to the length that it had.
    let mut file = disk.append("a", 5000).unwrap();
    file.append(b"more").unwrap();
    file.complete().unwrap();
    assert_eq!((read(&disk, "a")[5000..].to_vec(), asked()), (b"more".to_vec(), (1, 0)));
    disk.append("a", 4000).unwrap().append(&[7; 1000]).unwrap();
    // Once to see what was left of it, and once to read it.
    assert_eq!(
        (read(&disk, "a")[3999..4001].to_vec(), asked().0),
        (vec![pattern(4000)[3999], 7], 2)
    );
    // Another file of its length takes its place.
    write_whole(&disk, "b", &[9; 5000]).unwrap();
    disk.rename("b", "a").unwrap();
    assert_eq!((read(&disk, "a"), asked()), (vec![9; 5000], (1, 0)));
    // HDFS moves its block: it is read from where it is then, and looked for each time.
    fake.run("hdfs.block_file('/p/a').unlink()");
    assert_eq!((read(&disk, "a"), asked()), (vec![9; 5000], (1, 5000)));
    assert_eq!((read(&disk, "a"), asked()), (vec![9; 5000], (1, 5000)));
    std::fs::remove_dir_all(folder).unwrap();
}
