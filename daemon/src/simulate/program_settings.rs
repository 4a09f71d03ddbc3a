//! The settings of the program, from the variables of its environment. A value that the program cannot follow is an error: a
//! run of other worlds, or without the fault that was asked for, would look like a success.

use std::ffi::OsString;

/// Number of seeds of a run without `SEEDS`.
const SEEDS: u64 = 2000;
/// Most seeds of a run: months of work, so a larger number is a mistake.
const SEEDS_MAX: u64 = 1_000_000_000;

/// Within so many seeds each mutant has to be found.
const MUTANT_SEEDS: u64 = 2000;

/// The worlds that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChosenWorlds {
    /// The world of this seed, with its trace.
    One(u64),
    /// The worlds of the seeds from the first to the last one.
    Many(u64, u64),
    /// The same with each mutant, until a seed finds it.
    Mutants(u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProgramSettings {
    pub(super) worlds: ChosenWorlds,
    /// After so many steps the faults of each world stop. Absent: the plans decide.
    pub(super) steps: Option<u32>,
    /// The number of the mutant that each world has, from 1 on.
    pub(super) mutant: Option<usize>,
    /// Whether the worlds have several machines.
    pub(super) is_cluster: bool,
}

impl ProgramSettings {
    /// Reads the settings. `variable` returns the value of a variable, and `mutants` is the number of mutants of one machine and of
    /// several.
    ///
    /// # Errors
    /// The reason, in words.
    pub(super) fn read(variable: impl Fn(&str) -> Option<OsString>, mutants: (usize, usize)) -> Result<Self, String> {
        let read = |name: &str, least: u64, most: u64| number(name, variable(name), (least, most));
        let seed = read("SEED", 0, u64::MAX)?;
        let count = read("SEEDS", 1, SEEDS_MAX)?;
        let first = read("FIRST", 0, u64::MAX)?.unwrap_or(1);
        let steps = read("STEPS", 0, u32::MAX.into())?;
        let is_cluster = read("CLUSTER", 0, 1)? == Some(1);
        let mutants = if is_cluster { mutants.1 } else { mutants.0 };
        let mutant = read("MUTANT", 1, u64::try_from(mutants).unwrap_or(u64::MAX))?;
        let has_mutants = read("MUTANTS", 0, 1)? == Some(1);
        if seed.is_some() && (count.is_some() || has_mutants) {
            return Err("SEED chooses one world: SEEDS and MUTANTS cannot be set with it".to_owned());
        }
        if has_mutants && (count.is_some() || mutant.is_some()) {
            return Err(
                "MUTANTS=1 chooses the seeds and the mutants: SEEDS and MUTANT cannot be set with it".to_owned(),
            );
        }
        let count = if has_mutants {
            MUTANT_SEEDS
        } else {
            count.unwrap_or(SEEDS)
        };
        let worlds = match (seed, first.checked_add(count - 1)) {
            (Some(seed), _) => ChosenWorlds::One(seed),
            (None, Some(last)) if has_mutants => ChosenWorlds::Mutants(first, last),
            (None, Some(last)) => ChosenWorlds::Many(first, last),
            (None, None) => {
                let most = u64::MAX - (count - 1);
                return Err(format!("FIRST is {most} at most, because {count} seeds are tried"));
            }
        };
        Ok(Self {
            worlds,
            steps: steps.map(|steps| u32::try_from(steps).expect("it is in the range")),
            mutant: mutant.map(|mutant| usize::try_from(mutant).expect("it is in the range")),
            is_cluster,
        })
    }

    /// Returns the command that runs the world of a seed with the same limit and the same mutant.
    pub(super) fn command(&self, seed: u64) -> String {
        let steps = self.steps.map_or(String::new(), |steps| format!(" STEPS={steps}"));
        let mutant = self.mutant.map_or(String::new(), |mutant| format!(" MUTANT={mutant}"));
        let cluster = if self.is_cluster { " CLUSTER=1" } else { "" };
        format!("make simulate SEED={seed}{cluster}{steps}{mutant}")
    }
}

/// Reads a number; absent if the variable is absent or empty.
///
/// # Errors
/// The value is no number, or is outside of the range.
fn number(name: &str, value: Option<OsString>, (least, most): (u64, u64)) -> Result<Option<u64>, String> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let number = value.to_str().and_then(|text| text.parse::<u64>().ok());
    match number.filter(|number| (least..=most).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(format!(
            "{name} is a number from {least} to {most}, and it is set to `{}`",
            value.to_string_lossy()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads variables, where there are 12 mutants of one machine, and 7 of several.
    fn read(variables: &[(&str, &str)]) -> Result<ProgramSettings, String> {
        let value = |name: &str| {
            let (_, value) = variables.iter().find(|(of, _)| *of == name)?;
            Some(OsString::from(value))
        };
        ProgramSettings::read(value, (12, 7))
    }

    #[test]
    fn the_environment_chooses_worlds() {
        let worlds = |variables: &[(&str, &str)]| read(variables).unwrap().worlds;
        assert_eq!(worlds(&[]), ChosenWorlds::Many(1, 2000));
        let empty = [("SEEDS", ""), ("FIRST", ""), ("SEED", ""), ("MUTANTS", "")];
        assert_eq!(worlds(&empty), ChosenWorlds::Many(1, 2000));
        assert_eq!(worlds(&[("FIRST", "5"), ("SEEDS", "1")]), ChosenWorlds::Many(5, 5));
        assert_eq!(worlds(&[("FIRST", "5"), ("SEED", "8")]), ChosenWorlds::One(8));
        let last = [("FIRST", "18446744073709551615"), ("SEEDS", "1")];
        assert_eq!(worlds(&last), ChosenWorlds::Many(u64::MAX, u64::MAX));
        assert_eq!(
            worlds(&[("FIRST", "5"), ("MUTANTS", "1")]),
            ChosenWorlds::Mutants(5, 2004)
        );
        assert_eq!(worlds(&[("MUTANTS", "0")]), ChosenWorlds::Many(1, 2000));
        let limited = read(&[("SEED", "8"), ("STEPS", "0"), ("MUTANT", "12")]).unwrap();
        assert_eq!((limited.steps, limited.mutant), (Some(0), Some(12)));
        assert_eq!(limited.command(9), "make simulate SEED=9 STEPS=0 MUTANT=12");
        let unlimited = read(&[("STEPS", ""), ("MUTANT", "")]).unwrap();
        assert_eq!((unlimited.steps, unlimited.mutant), (None, None));
        assert_eq!(unlimited.command(9), "make simulate SEED=9");
        let several = read(&[("CLUSTER", "1"), ("MUTANT", "7")]).unwrap();
        assert_eq!(several.command(9), "make simulate SEED=9 CLUSTER=1 MUTANT=7");
        assert!(read(&[("CLUSTER", "1"), ("MUTANT", "8")]).is_err());
    }

    #[test]
    fn a_value_that_cannot_be_followed_is_said() {
        for (name, value, range) in [
            ("SEEDS", "0", "1 to 1000000000"),
            ("SEEDS", "many", "1 to 1000000000"),
            ("FIRST", "-1", "0 to 18446744073709551615"),
            ("SEED", "18446744073709551616", "0 to 18446744073709551615"),
            ("STEPS", "4294967296", "0 to 4294967295"),
            ("MUTANT", "0", "1 to 12"),
            ("MUTANT", "99", "1 to 12"),
            ("MUTANTS", "2", "0 to 1"),
        ] {
            let said = format!("{name} is a number from {range}, and it is set to `{value}`");
            assert_eq!(read(&[(name, value)]), Err(said));
        }
        for (variables, said) in [
            (
                &[("FIRST", "18446744073709551615")][..],
                "FIRST is 18446744073709549616 at most, because 2000 seeds are tried",
            ),
            (&[("SEED", "1"), ("SEEDS", "2")][..], "SEED chooses one world"),
            (&[("SEED", "1"), ("MUTANTS", "1")][..], "SEED chooses one world"),
            (&[("MUTANTS", "1"), ("MUTANT", "3")][..], "MUTANTS=1 chooses"),
            (&[("MUTANTS", "1"), ("SEEDS", "3")][..], "MUTANTS=1 chooses"),
        ] {
            let wrong = read(variables).unwrap_err();
            assert!(wrong.starts_with(said), "{wrong}");
        }
    }
}
