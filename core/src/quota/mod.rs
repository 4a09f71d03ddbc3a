//! Quotas of a function's home and cache (`limits.home`, `limits.cache`). They hold between runs: fnd measures both
//! directories after a run, and accepts no new run while one of them is too large.
//!
//! Files:
//! - `books`: decides when a function is measured, and remembers what was found; measures nothing itself

pub mod books;
#[cfg(test)]
mod tests;

use fnd_wire::units::spell_size;
use serde::{Deserialize, Serialize};

/// The longest line that a measurement may print, in bytes.
pub const LINE_MAX: usize = 16 * 1024;

/// Largest sizes in bytes; absent: no quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quotas {
    /// `limits.home`.
    pub home: Option<u64>,
    /// `limits.cache`.
    pub cache: Option<u64>,
}

impl Quotas {
    /// Says whether there is a quota at all.
    #[must_use]
    pub fn any(&self) -> bool {
        self.home.is_some() || self.cache.is_some()
    }
}

/// The output of `fnd-helper --measure`, one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// The function's home, the directory `STATE_DIRECTORY`.
    pub home: TreeSize,
    /// The function's cache, the directory `CACHE_DIRECTORY`.
    pub cache: TreeSize,
}

/// A directory with everything in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TreeSize {
    /// The allocated bytes. An inode with several names counts once.
    pub bytes: u64,
    /// Why more may be there than was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
}

/// Why a directory was not counted completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// The function denied itself this directory (`chmod 000`). It counts as full: otherwise this would evade the quota.
    Closed(String),
    /// The path of a directory is too long to be opened. It counts as full for the same reason.
    Deep(String),
    /// The count was given up. The bytes are a lower bound.
    Unfinished(String),
}

/// The directories of a function, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Paths<'a> {
    /// `STATE_DIRECTORY`.
    pub home: &'a str,
    /// `CACHE_DIRECTORY`.
    pub cache: &'a str,
}

/// One of the two directories.
#[derive(Debug, Clone, Copy)]
struct QuotaDirectory<'a> {
    name: &'static str,
    key: &'static str,
    path: &'a str,
}

/// Returns why a function may not run, for people; nothing if it may.
#[must_use]
pub fn exceeded(quotas: &Quotas, measured: &Measured, paths: Paths<'_>) -> Option<String> {
    let home = QuotaDirectory {
        name: "home",
        key: "limits.home",
        path: paths.home,
    };
    let cache = QuotaDirectory {
        name: "cache",
        key: "limits.cache",
        path: paths.cache,
    };
    let of_home = of_tree(quotas.home, &measured.home, home);
    let of_cache = of_tree(quotas.cache, &measured.cache, cache);
    let all: Vec<_> = of_home.into_iter().chain(of_cache).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns which directories have four fifths of their quota or more, for people: runs are refused soon.
#[must_use]
pub fn nearly(quotas: &Quotas, measured: &Measured) -> Option<String> {
    let of = |quota: Option<u64>, tree: &TreeSize, name: &str, key: &str| {
        // Both sizes are divided, because a product could be too large for 64 bits.
        let quota = quota.filter(|quota| tree.bytes / 4 >= quota / 5)?;
        let (used, most) = (about(tree.bytes), spell_size(quota));
        Some(format!("its {name} has {used} of {most} (`{key}`)"))
    };
    let home = of(quotas.home, &measured.home, "home", "limits.home");
    let cache = of(quotas.cache, &measured.cache, "cache", "limits.cache");
    let all: Vec<_> = home.into_iter().chain(cache).collect();
    (!all.is_empty()).then(|| format!("{}: above it new runs are refused", all.join("; ")))
}

fn of_tree(quota: Option<u64>, tree: &TreeSize, place: QuotaDirectory<'_>) -> Option<String> {
    let quota = quota?;
    let QuotaDirectory { name, key, path } = place;
    if tree.bytes > quota {
        let (used, most) = (about(tree.bytes), spell_size(quota));
        return Some(format!(
            "its {name} has {used}, more than {most} (`{key}`): remove files from {path}, or raise the limit"
        ));
    }
    match tree.gap.as_ref()? {
        Gap::Closed(closed) => Some(format!(
            "its {name} counts as full, because the function may not read `{closed}` itself: \
             `chmod u+rx` this directory in {path}, or remove it"
        )),
        Gap::Deep(deep) => Some(format!(
            "its {name} counts as full, because the path of a directory is too long to be opened: remove `{deep}` from {path}"
        )),
        // The bytes are a lower bound, which does not show that the quota is exceeded.
        Gap::Unfinished(_) => None,
    }
}

/// Returns a size with at most one decimal, for people: `1.3 GiB`.
#[must_use]
pub fn about(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} bytes");
    };
    // Ten times the size may need more than 64 bits.
    let tenths = (u128::from(bytes) * 10) >> shift;
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        tenth => format!("{}.{tenth} {unit}", tenths / 10),
    }
}

impl Measured {
    /// Returns what is known after a new measurement: what could not be counted to its end has at least the size that
    /// was found before.
    #[must_use]
    pub fn after(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        Self {
            home: self.home.after(&before.home),
            cache: self.cache.after(&before.cache),
        }
    }

    /// Returns why a part is a lower bound, for people; nothing if all was counted.
    #[must_use]
    pub fn unfinished(&self) -> Option<&str> {
        [&self.home, &self.cache]
            .into_iter()
            .find_map(|tree| match tree.gap.as_ref()? {
                Gap::Unfinished(why) => Some(why.as_str()),
                Gap::Closed(_) | Gap::Deep(_) => None,
            })
    }
}

impl TreeSize {
    fn after(self, before: &Self) -> Self {
        match self.gap {
            Some(Gap::Unfinished(_)) => Self {
                bytes: self.bytes.max(before.bytes),
                ..self
            },
            Some(Gap::Closed(_) | Gap::Deep(_)) | None => self,
        }
    }
}
