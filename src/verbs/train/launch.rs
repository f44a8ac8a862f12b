//! What whoever starts a process of a run says to it: its rank among how many, its number on its machine, and where they meet,
//! by the variables of torchrun, which Kubernetes' training operators set too. Without RANK there is one process.
//! It refuses to know what processes tell each other.

use legwork_actors::local::Device;
use legwork_training::processes::World;
use std::time::Duration;

/// What a process was told by whoever started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) world: World,
    /// Its number on its machine.
    local_rank: Option<usize>,
}

/// Which variable says what cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LaunchError {
    /// RANK alone.
    #[error(
        "RANK is set and {name} is not: expected RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; set {name}, or unset RANK for one process"
    )]
    Missing { name: &'static str },
    /// No number.
    #[error("{name} is `{got}`: expected {expected}; correct it, or unset RANK for one process")]
    Value { name: &'static str, expected: String, got: String },
    /// Another number of processes than of ranks.
    #[error(
        "WORLD_SIZE is {got} processes, and tp {tp} times dp {dp} are {} ranks: expected a process for each; start {}, give other \
         numbers, or unset RANK for all ranks in one process", tp * dp, tp * dp
    )]
    Ranks { got: usize, tp: usize, dp: usize },
    /// No card that would be this process's own.
    #[error("device is {device} and LOCAL_RANK is {got}: expected {expected}; give --device cuda:N, or LOCAL_RANK")]
    Card { device: Device, expected: String, got: String },
}

impl Launch {
    /// As the environment of this process says; none where it says no rank, or one that is alone.
    pub(super) fn of_environment(grid: [usize; 2], wait: Duration) -> Result<Option<Self>, LaunchError> {
        Self::read(&|name| std::env::var(name).ok(), grid, wait)
    }

    fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        [tp, dp]: [usize; 2],
        wait: Duration,
    ) -> Result<Option<Self>, LaunchError> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let needed = |name: &'static str| set(name).ok_or(LaunchError::Missing { name });
        let Some(rank) = set("RANK") else { return Ok(None) };
        let rank: usize = number("RANK", &rank, "a number from 0")?;
        let ranks: usize = number("WORLD_SIZE", &needed("WORLD_SIZE")?, "a number of processes")?;
        if ranks != tp * dp {
            return Err(LaunchError::Ranks { got: ranks, tp, dp });
        }
        if rank >= ranks {
            let expected = format!("a number below WORLD_SIZE, which is {ranks}");
            return Err(LaunchError::Value { name: "RANK", expected, got: rank.to_string() });
        }
        let local_rank = set("LOCAL_RANK").map(|value| number("LOCAL_RANK", &value, "a number from 0")).transpose()?;
        if ranks == 1 {
            return Ok(None);
        }
        let host = needed("MASTER_ADDR")?;
        let told: u16 = number("MASTER_PORT", &needed("MASTER_PORT")?, "a port from 1 to 65535")?;
        // Where torchrun has its own store at the port that it tells, the next one is taken.
        let is_taken = set("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let port = match told.checked_add(u16::from(is_taken)) {
            Some(port) if told > 0 => port,
            _ => {
                let expected = "a port from 1 to 65535, and below where torchrun listens at it".to_owned();
                return Err(LaunchError::Value { name: "MASTER_PORT", expected, got: told.to_string() });
            }
        };
        Ok(Some(Self { world: World { rank, ranks, host, port, wait }, local_rank }))
    }

    /// Where this process computes: of several cards, or of all, the one of its number on its machine; the processor, or a card that
    /// was named, as it is.
    pub(super) fn device(&self, device: &Device, is_card_named: bool) -> Result<Device, LaunchError> {
        let wrong = |expected: &str| LaunchError::Card {
            device: device.clone(),
            expected: expected.to_owned(),
            got: self.local_rank.map_or_else(|| "not set".to_owned(), |rank| rank.to_string()),
        };
        match device {
            // What cuts a model otherwise than by --tp is refused where places are made of it.
            Device::Processor | Device::Cut(_) => Ok(device.clone()),
            Device::Cards(named) if named.len() > 1 => {
                let card = self.local_rank.and_then(|rank| named.get(rank));
                card.map(|card| Device::Cards(vec![*card])).ok_or_else(|| wrong("the place of a card in that list"))
            }
            Device::Cards(_) if is_card_named => Ok(device.clone()),
            Device::Cards(_) | Device::AllCards => {
                let card = self.local_rank.ok_or_else(|| wrong("the number of a card"))?;
                Ok(Device::Cards(vec![card]))
            }
        }
    }
}

fn number<T: std::str::FromStr>(name: &'static str, value: &str, expected: &str) -> Result<T, LaunchError> {
    let wrong = |_| LaunchError::Value { name, expected: expected.to_owned(), got: value.to_owned() };
    value.trim().parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: [(&str, &str); 5] = [
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_RANK", "1"),
        ("MASTER_ADDR", "10.0.0.1"),
        ("MASTER_PORT", "29500"),
    ];

    fn read(variables: &[(&str, &str)], grid: [usize; 2]) -> Result<Option<Launch>, String> {
        let found = |name: &str| variables.iter().rfind(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        Launch::read(&found, grid, Duration::from_secs(1)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_variables_of_torchrun_say_which_process_it_is_and_where_they_meet() {
        let launch = read(&FOUR, [2, 2]).unwrap().unwrap();
        let World { rank, ranks, host, port, .. } = launch.world;
        assert_eq!((rank, ranks, host.as_str(), port, launch.local_rank), (3, 4, "10.0.0.1", 29_500, Some(1)));
        let mut of_torchrun = FOUR.to_vec();
        of_torchrun.push(("TORCHELASTIC_USE_AGENT_STORE", "True"));
        assert_eq!(read(&of_torchrun, [4, 1]).unwrap().unwrap().world.port, 29_501);
        assert_eq!(read(&FOUR[1..], [1, 1]), Ok(None), "without a rank there is one process");
        assert_eq!(read(&[("RANK", "0"), ("WORLD_SIZE", "1")], [1, 1]), Ok(None), "one is alone");
        assert_eq!(read(&[("RANK", "")], [2, 2]), Ok(None));
    }

    #[test]
    fn what_cannot_be_is_told_with_the_cure() {
        for (name, value, told) in [
            (
                "WORLD_SIZE",
                "2",
                "WORLD_SIZE is 2 processes, and tp 2 times dp 2 are 4 ranks: expected a process for each; start 4",
            ),
            ("WORLD_SIZE", "", "RANK is set and WORLD_SIZE is not"),
            ("MASTER_ADDR", " ", "set MASTER_ADDR, or unset RANK"),
            ("MASTER_PORT", "", "RANK is set and MASTER_PORT is not"),
            ("RANK", "4", "RANK is `4`: expected a number below WORLD_SIZE, which is 4"),
            ("RANK", "-1", "RANK is `-1`: expected a number from 0"),
            ("LOCAL_RANK", "x", "LOCAL_RANK is `x`"),
            ("MASTER_PORT", "70000", "MASTER_PORT is `70000`: expected a port"),
            ("MASTER_PORT", "0", "MASTER_PORT is `0`: expected a port"),
        ] {
            let mut variables = FOUR.to_vec();
            variables.push((name, value));
            let refused = read(&variables, [2, 2]).unwrap_err();
            assert!(refused.contains(told), "{told:?} in {refused:?}");
        }
    }

    #[test]
    fn each_process_has_the_card_of_its_number_on_its_machine_or_the_one_that_is_named() {
        let mut launch = read(&FOUR, [2, 2]).unwrap().unwrap();
        let of = |launch: &Launch, word: &str, is_named: bool| {
            let device = launch.device(&word.parse().unwrap(), is_named);
            device.map(|device| device.to_string()).map_err(|error| error.to_string())
        };
        for (word, is_named, expected) in [
            ("cpu", false, "cpu"),
            ("cuda", false, "cuda:1"),
            ("cuda:all", false, "cuda:1"),
            ("cuda:0", true, "cuda:0"),
            ("cuda:6,7", true, "cuda:7"),
        ] {
            assert_eq!(of(&launch, word, is_named).as_deref(), Ok(expected), "{word}");
        }
        launch.local_rank = Some(2);
        assert!(of(&launch, "cuda:6,7", true).unwrap_err().contains("LOCAL_RANK is 2: expected the place of a card"));
        launch.local_rank = None;
        assert!(
            of(&launch, "cuda", false).unwrap_err().contains("LOCAL_RANK is not set: expected the number of a card")
        );
    }
}
