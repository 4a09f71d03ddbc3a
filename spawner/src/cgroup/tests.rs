//! Tests of the files that are written, with cgroup2 and hybrid trees made of ordinary files.

use super::*;
use fnd_wire::plan::Limits;

pub(super) fn limits() -> Limits {
    Limits {
        timeout_ms: None,
        grace_ms: 0,
        memory: 64 << 20,
        memory_high: None,
        swap: 1 << 20,
        cpu_milli: Some(500),
        cpu_weight: 200,
        pids: 10,
        open_files: 64,
        file_size: None,
        io_weight: 50,
        io_read: Some(1 << 20),
        io_write: None,
        result: 1,
        asked: Vec::new(),
    }
}

fn files(dir: &Path, names: &[&str]) {
    fs::create_dir_all(dir).unwrap();
    for name in names {
        fs::write(dir.join(name), "").unwrap();
    }
}

#[test]
fn an_ended_process_is_known_by_its_leaf() {
    assert_eq!(leaf("/fnd-1/f/ops.a/w12"), Some("w12"));
    assert_eq!(leaf("/fnd-1/f/ops.a/w12 (deleted)"), Some("w12"));
    assert_eq!(leaf("/fnd-1/f/w3/l"), None);
    assert_eq!(leaf_of(u32::MAX), None);
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

const V2: [&str; 9] = [
    "memory.max",
    "memory.high",
    "memory.swap.max",
    "cpu.max",
    "cpu.weight",
    "pids.max",
    "io.max",
    "io.weight",
    "cgroup.subtree_control",
];

#[test]
fn mounts_and_own_groups_are_found() {
    let mountinfo = "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw,nsdelegate\n";
    let found = hierarchies(mountinfo, "2:cpu,cpuacct:/a\n1:name=systemd:/x\n0::/system.slice/fnd.service\n");
    let names: Vec<_> = found.iter().map(|h| (h.controllers.join("+"), h.own.clone())).collect();
    let path = |text: &str| Some(PathBuf::from(format!("/sys/fs/cgroup/{text}")));
    assert_eq!(names[0], (String::new(), path("unified/system.slice/fnd.service")));
    assert_eq!(names[1], ("cpu".to_owned(), path("cpu,cpuacct/a")));
    let container = "41 31 0:38 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    assert_eq!(hierarchies(container, "0::/docker/x/y\n")[0].own, Some("/sys/fs/cgroup/y".into()));
    assert_eq!(hierarchies(container, "0::/../other\n")[0].own, None);
}

#[test]
fn on_cgroup2_limits_are_the_functions_and_leaves_get_memory_only() {
    let root = tempfile::tempdir().unwrap();
    files(root.path(), &["cgroup.procs", "cgroup.controllers"]);
    // `echo +x` adds to the kernel's list. A plain file holds only the last value, so each controller is read back
    // right after its own write.
    files(&root.path().join("fnd-1"), &["cgroup.subtree_control"]);
    files(&root.path().join("fnd-1/f"), &V2);
    files(&root.path().join("fnd-1/f/ops.a"), &V2);
    let found = hierarchies(&format!("1 1 0:1 / {} rw - cgroup2 none rw\n", root.path().display()), "0::/\n");
    let tree = CgroupTree::open(&found, "fnd-1", Some("8:0".to_owned())).unwrap();
    assert_eq!((tree.layout(), &tree.missing[..]), ("v2", &[][..]));
    let dir = root.path().join("fnd-1/f/ops.a");
    files(&dir, &["pids.events", "cpu.stat"]);
    let group = tree.group("ops.a").unwrap();
    assert_eq!(group.apply(&limits()), Ok(()));
    for (file, value) in [
        ("memory.max", "67108864"),
        ("memory.high", "max"),
        ("memory.swap.max", "1048576"),
        ("pids.max", "11"),
        ("cpu.max", "50000 100000"),
        ("cpu.weight", "200"),
        ("io.max", "8:0 rbps=1048576 wbps=max"),
        ("io.weight", "default 50"),
        ("cgroup.subtree_control", "+memory"),
    ] {
        assert_eq!(read(dir.join(file)), value, "{file}");
    }
    assert!(group.v1_dirs().is_empty() && dir.join("l").is_dir());
    fs::write(dir.join("pids.events"), "max 3\n").unwrap();
    fs::write(dir.join("cpu.stat"), "usage_usec 1\nthrottled_usec 7\n").unwrap();
    assert_eq!(group.counters(), Counters { oom_kills: 0, pids_refused: 3, throttled_us: 7 });
    fs::remove_file(dir.join("memory.max")).unwrap();
    fs::create_dir(dir.join("memory.max")).unwrap(); // a directory can't be written
    assert!(group.apply(&limits()).unwrap_err().contains("`memory`:"));
}

#[test]
fn a_missing_controller_is_reported() {
    let root = tempfile::tempdir().unwrap();
    files(root.path(), &["cgroup.procs", "cgroup.controllers"]);
    files(&root.path().join("memory/fnd-1"), &["memory.limit_in_bytes"]);
    files(&root.path().join("memory/fnd-1/f.a"), &["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]);
    let mounts = format!(
        "1 1 0:1 / {0} rw - cgroup2 none rw\n1 1 0:1 / {0}/memory rw - cgroup none rw,memory\n",
        root.path().display()
    );
    let tree = CgroupTree::open(&hierarchies(&mounts, "0::/\n4:memory:/other\n"), "fnd-1", None).unwrap();
    assert_eq!(tree.layout(), "hybrid");
    let missing: Vec<_> = tree.missing.iter().map(|(limit, _)| limit.as_str()).collect();
    assert_eq!(missing, ["memory_high", "swap", "cpu", "cpu_weight", "pids", "io_weight", "io_read", "io_write"]);
    let group = tree.group("a").unwrap();
    assert_eq!(group.apply(&limits()), Ok(()));
    assert_eq!(read(root.path().join("memory/fnd-1/f.a/memory.memsw.limit_in_bytes")), "68157440");
    assert_eq!(group.v1_dirs(), [root.path().join("memory/fnd-1/f.a")]);
    assert!(CgroupTree::open(&[], "fnd-1", None).err().unwrap().contains("cgroup2"));
}

#[test]
fn a_leaf_that_could_not_be_opened_is_removed() {
    // Without free descriptors, opening it fails in the same way as here, where the directory has no `cgroup.kill`.
    let dir = tempfile::tempdir().unwrap();
    let (homes, counters, device) = Default::default();
    let group = Group { dir: dir.path().to_owned(), homes, counters, device };
    assert!(Leaf::make(&group, "w1").is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
