//! The command line of `fnd-web`, which `fndctl web` makes.

use clap::Parser;
use fnd_wire::units::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Serve the page of fnd for one person, until it is idle. `fndctl web` starts this program.
#[derive(Debug, Parser)]
#[command(name = "fnd-web", version)]
pub(crate) struct Cli {
    /// Path of fnd's control socket.
    #[arg(long, value_name = "PATH", default_value = "/run/fnd/control.sock")]
    pub(crate) control: PathBuf,

    /// The control socket is that of the user's own fnd.
    #[arg(long)]
    pub(crate) user: bool,

    /// Listen at this socket [default: $XDG_RUNTIME_DIR/fnd/web.sock].
    #[arg(long, value_name = "PATH", conflicts_with = "port")]
    pub(crate) socket: Option<PathBuf>,

    /// Listen at this port of 127.0.0.1; 0 chooses a free one.
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,

    /// Offer no action, and refuse those that are tried.
    #[arg(long)]
    pub(crate) read_only: bool,

    /// End when nobody has used the page for this time.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = idle)]
    pub(crate) idle: Duration,

    /// End when standard input ends.
    #[arg(long)]
    pub(crate) end_with_input: bool,
}

/// The place where the page listens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Socket(PathBuf),
    Port(u16),
}

impl Cli {
    /// Returns the place to listen at.
    ///
    /// # Errors
    /// The options name no place, and there is no login session whose directory could have the socket.
    pub(crate) fn place(&self) -> Result<Place, String> {
        place(
            self.socket.clone(),
            self.port,
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        )
    }
}

fn place(named: Option<PathBuf>, port: Option<u16>, runtime: Option<PathBuf>) -> Result<Place, String> {
    if let Some(port) = port {
        return Ok(Place::Port(port));
    }
    let usual = || {
        runtime
            .filter(|path| path.is_absolute())
            .map(|path| path.join("fnd/web.sock"))
    };
    named.or_else(usual).map(Place::Socket).ok_or_else(|| {
        "XDG_RUNTIME_DIR is not set, which a login session does: name the socket with --socket PATH, or a port with --port"
            .to_owned()
    })
}

fn idle(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("the page would end at once".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["fnd-web"]).unwrap();
        assert_eq!(cli.idle, Duration::from_secs(900));
        for wrong in [
            &["--idle", "0"][..],
            &["--idle", "soon"],
            &["--port", "70000"],
            &["--port", "80", "--socket", "/a"],
        ] {
            let words = ["fnd-web"].iter().chain(wrong);
            assert!(Cli::try_parse_from(words).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_page_listens_at_a_port_a_named_socket_or_that_of_the_session() {
        let path = |text: &str| Some(PathBuf::from(text));
        let socket = |text: &str| Ok(Place::Socket(text.into()));
        assert_eq!(place(None, Some(0), None), Ok(Place::Port(0)));
        assert_eq!(place(path("/a"), None, path("/run/user/1")), socket("/a"));
        assert_eq!(
            place(None, None, path("/run/user/1")),
            socket("/run/user/1/fnd/web.sock")
        );
        assert!(place(None, None, path("")).is_err());
        assert!(place(None, None, None).is_err());
    }
}
