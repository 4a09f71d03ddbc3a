//! The verbs, one file each: each asks the daemon, then prints.
//!
//! Files:
//! - `overview`: what needs a person
//! - `status`, `list`, `show`, `top`, `cat`, `edit`: functions
//! - `emit`: sends an event
//! - `invoke`, `cancel`, `replay`, `result`, `wait`: one run
//! - `audit`: who did what
//! - `history`, `dead_letters`, `report`: many runs
//! - `logs`, `events`: what is printed and what happens
//! - `build`: the dependencies of a function
//! - `releases`, `canary`, `diff`: the releases of a function
//! - `deploy`, `remove`: uploaded functions
//! - `home`: the homes of a function, one for each owner of its files
//! - `enable`, `drain`, `reload`, `log_level`: change how fnd works
//! - `kubeless`: the command line of Kubeless
//! - `mcp`: functions as tools of agents
//! - `shell`: a shell that sees the machine as a function does
//! - `new`, `run`, `validate`, `explain`, `schema`, `completion`: need no daemon
//! - `import`: functions made of other systems' files
//! - `runtimes`, `sizes`, `routes`, `config`, `version`, `whoami`: what is there
//! - `schedules`: when functions run by themselves
//! - `nats`: the connection to NATS, and the messages of this node
//! - `binding`: service bindings
//! - `state`: values that functions share
//! - `secret`: secrets of functions, and those that requests are checked with
//! - `backup`, `restore`: everything in one archive, and back
//! - `web`, `open`: the web page
//! - `verify`, `doctor`, `bundle`: find out what is wrong

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod binding;
pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod canary;
pub(crate) mod cancel;
pub(crate) mod cat;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod dead_letters;
pub(crate) mod deploy;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod edit;
pub(crate) mod emit;
pub(crate) mod enable;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod home;
pub(crate) mod import;
pub(crate) mod invoke;
pub(crate) mod kubeless;
pub(crate) mod list;
pub(crate) mod log_level;
pub(crate) mod logs;
pub(crate) mod mcp;
pub(crate) mod nats;
pub(crate) mod new;
pub(crate) mod open;
pub(crate) mod overview;
pub(crate) mod releases;
pub(crate) mod reload;
pub(crate) mod remove;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod result;
pub(crate) mod routes;
pub(crate) mod run;
pub(crate) mod runtimes;
pub(crate) mod schedules;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod sizes;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod validate;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod web;
pub(crate) mod whoami;
