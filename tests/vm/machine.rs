//! One virtual machine: QEMU, and a channel to the agent in it that runs commands.
//!
//! CPUs are emulated: programs behave exactly as on hardware, only slower. `FND_VM_KVM=1` uses the CPUs of the host.

use crate::channel::Channel;
use fnd_tests::Run;
use fnd_tests::wait::{now, pause};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest time of a boot, which takes about 30 seconds on an idle host.
const BOOT: Duration = Duration::from_secs(1200);
/// Longest time in which all services stop; systemd kills those that take longer than 90 seconds.
const STOP: Duration = Duration::from_secs(600);
/// Lines of the console that a failure prints.
const CONSOLE_LINES: usize = 40;
/// Longest time of a command without a limit of its own; only one that hangs takes it.
pub(crate) const COMMAND: Duration = Duration::from_secs(900);

/// The image to boot.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// Directory with `vmlinuz`, `initrd`, `root.ext4` (`scripts/vm-image.sh`).
    pub(crate) base: PathBuf,
    /// The package under test, and the agent (`scripts/vm-payload.sh`).
    pub(crate) payload: PathBuf,
    /// Directory of this machine's own disk, console and socket.
    pub(crate) work: PathBuf,
}

impl Image {
    /// The same, for one of several machines.
    pub(crate) fn of_machine(&self, number: usize) -> Self {
        let work = self.work.join(format!("machine-{number}"));
        std::fs::create_dir_all(&work).expect("a directory for the machine");
        Self { work, ..self.clone() }
    }
}

/// A running machine; dropping it cuts its power.
#[derive(Debug)]
pub(crate) struct VirtualMachine {
    image: Image,
    qemu: Child,
    channel: RefCell<Channel>,
    last: Cell<u64>,
}

/// A command that runs in the machine.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pending {
    id: u64,
    command: String,
}

impl VirtualMachine {
    /// Boots a machine from a fresh copy of the image, with more on the kernel's command line.
    ///
    /// # Panics
    /// When it is not there in time.
    pub(crate) fn boot(image: &Image, kernel_arguments: &str) -> Self {
        let overlay = image.work.join("disk.qcow2");
        let _ = std::fs::remove_file(&overlay); // of the machine before
        let made = Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"])
            .arg(image.base.join("root.ext4"))
            .arg(&overlay)
            .status();
        assert!(made.is_ok_and(|status| status.success()), "qemu-img makes the disk");
        Self::power_on(image, kernel_arguments)
    }

    /// Switches a machine on with the existing disk.
    fn power_on(image: &Image, kernel_arguments: &str) -> Self {
        let socket = image.work.join("agent.sock");
        let _ = std::fs::remove_file(&socket); // as above
        let mut qemu = qemu(image, &socket, kernel_arguments)
            .spawn()
            .expect("qemu-system-x86_64 starts");
        let start = now();
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => {
                    let ended = qemu.try_wait().expect("QEMU can be asked");
                    assert!(ended.is_none(), "QEMU ended: {ended:?}; see {}", image.work.display());
                    assert!(start.elapsed() < BOOT, "no channel to the machine: {error}");
                }
            }
            pause();
        };
        let machine = Self {
            image: image.clone(),
            qemu,
            channel: RefCell::new(Channel::new(stream)),
            last: Cell::new(0),
        };
        machine.wait_boot();
        machine
    }

    /// Cuts the power, as a failing power supply does: data that was not written to the disk is lost. Then boots again,
    /// with more on the kernel's command line.
    pub(crate) fn power_cut(&mut self, kernel_arguments: &str) {
        self.off();
        let again = Self::power_on(&self.image, kernel_arguments);
        *self = again;
    }

    /// Reboots by the machine's own means, services stopped in order. A new QEMU boots it again: a machine that does not
    /// stop is told from one that does not boot.
    pub(crate) fn reboot(&mut self) {
        // The machine may be down before it has answered.
        let _ = self.start("systemctl reboot");
        let start = now();
        while self.qemu.try_wait().expect("QEMU can be asked").is_none() {
            assert!(
                start.elapsed() < STOP,
                "not stopped after {STOP:?}{}",
                self.console_end()
            );
            pause();
        }
        let again = Self::power_on(&self.image, "");
        *self = again;
    }

    /// Runs a command with bash as root.
    #[track_caller]
    pub(crate) fn run(&self, command: &str) -> Run {
        self.run_with(command, "")
    }

    /// Runs a command with `input` on its standard input.
    #[track_caller]
    pub(crate) fn run_with(&self, command: &str, input: &str) -> Run {
        let pending = self.start_with(command, input);
        self.wait(&pending, COMMAND)
    }

    /// Returns what a command prints, which has to succeed.
    #[track_caller]
    pub(crate) fn ok(&self, command: &str) -> String {
        let run = self.run(command);
        assert_eq!(run.code, 0, "`{command}`: {run}");
        run.out().trim_end().to_owned()
    }

    /// Starts a command and doesn't wait for its end.
    pub(crate) fn start(&self, command: &str) -> Pending {
        self.start_with(command, "")
    }

    fn start_with(&self, command: &str, input: &str) -> Pending {
        let id = self.last.get() + 1;
        self.last.set(id);
        let request = serde_json::json!({ "id": id, "command": command, "input": input });
        let mut stream = self
            .channel
            .borrow()
            .reader
            .get_ref()
            .try_clone()
            .expect("a socket can be duplicated");
        writeln!(stream, "{request}").expect("the machine takes a command");
        Pending {
            id,
            command: command.to_owned(),
        }
    }

    /// Waits for the end of a command.
    ///
    /// # Panics
    /// If it does not come in time, or the machine has ended.
    #[track_caller]
    pub(crate) fn wait(&self, pending: &Pending, limit: Duration) -> Run {
        let start = now();
        let mut channel = self.channel.borrow_mut();
        loop {
            if let Some(run) = channel.answers.remove(&pending.id) {
                return run;
            }
            let left = limit.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "`{}` took longer than {limit:?}", pending.command);
            channel.receive(left);
        }
    }

    /// Returns what `command` prints once it succeeds; tried until `limit`.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, limit: Duration, command: &str) -> String {
        let start = now();
        // `jq -e` of Debian 12 succeeds without any input, so the command before it must succeed, too.
        let pipes = if command.contains("jq -e") {
            "set -o pipefail\n"
        } else {
            ""
        };
        loop {
            let run = self.run(&format!("{pipes}{command}"));
            if run.code == 0 {
                return run.out().trim_end().to_owned();
            }
            assert!(
                start.elapsed() < limit,
                "waited {limit:?} for {what}: `{command}`: {run}"
            );
        }
    }

    fn wait_boot(&self) {
        let start = now();
        let mut channel = self.channel.borrow_mut();
        while channel.boots.is_empty() {
            let left = BOOT.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "not booted after {BOOT:?}{}", self.console_end());
            channel.receive(left);
        }
    }

    /// Returns the last lines of the machine's console.
    pub(crate) fn console_end(&self) -> String {
        let path = self.image.work.join("console");
        let text = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
        format!("; the end of its console, {}:\n{}", path.display(), last.join("\n"))
    }

    fn off(&mut self) {
        // An error means that the machine has ended already.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl Drop for VirtualMachine {
    fn drop(&mut self) {
        self.off();
    }
}

fn qemu(image: &Image, socket: &Path, kernel_arguments: &str) -> Command {
    let kvm = std::env::var("FND_VM_KVM").is_ok_and(|value| value == "1");
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", if kvm { "kvm" } else { "tcg,thread=multi,tb-size=512" }])
        .args(["-cpu", "max", "-smp", "2", "-m", "1536"])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-monitor",
            "none",
            "-no-reboot",
        ])
        .arg("-kernel")
        .arg(image.base.join("vmlinuz"))
        .arg("-initrd")
        .arg(image.base.join("initrd"))
        .args([
            "-append",
            // There is no other guest on its CPUs, so mitigations against one would only make it slow.
            &format!("root=LABEL=root rw console=ttyS0 quiet panic=10 mitigations=off {kernel_arguments}"),
        ])
        // Writes that the machine did not flush are lost with its power; flushed ones are in the host's page cache.
        .args([
            "-drive",
            &format!(
                "file={},if=virtio,cache=writeback",
                image.work.join("disk.qcow2").display()
            ),
        ])
        .args([
            "-drive",
            &format!("file={},format=raw,if=virtio,readonly=on", image.payload.display()),
        ])
        .args(["-serial", &format!("file:{}", image.work.join("console").display())])
        .args([
            "-device",
            "virtio-serial",
            "-device",
            "virtserialport,chardev=agent,name=fnd",
        ])
        .args([
            "-chardev",
            &format!("socket,id=agent,path={},server=on,wait=off", socket.display()),
        ])
        .args(["-device", "virtio-rng-pci"]);
    let log = File::create(image.work.join("qemu")).expect("a file for what QEMU says");
    qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    qemu
}
