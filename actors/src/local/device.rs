//! Where a model in this process computes, as one word of a configuration or of the command line: the processor, or
//! cards, with a replica on each. It refuses to know how a card is opened.

use super::opening::LocalError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Cards that may be named.
const CARDS_MAX: usize = 64;

/// Where a model computes: `cpu`, `cuda` (the first card), `cuda:1`, `cuda:0,1` (a replica on each) or `cuda:all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The processor, in `f32`.
    #[default]
    Processor,
    /// These cards of NVIDIA, in bf16, by the numbers that the driver gives them.
    Cards(Vec<usize>),
    /// All cards of NVIDIA that there are.
    AllCards,
}

/// Where one engine computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Processor,
    Card(usize),
}

/// A word that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device is `{given}`{why}; expected cpu, cuda, cuda:N, cuda:0,1 (a replica on each) or cuda:all")]
pub struct DeviceError {
    given: String,
    why: &'static str,
}

impl Device {
    /// Whether it is cards.
    pub fn is_cards(&self) -> bool {
        *self != Device::Processor
    }

    /// Where its engines compute, when there are so many cards; `None` if this program was built without them.
    pub(crate) fn places(&self, cards: Option<usize>) -> Result<Vec<Place>, LocalError> {
        if !self.is_cards() {
            return Ok(vec![Place::Processor]);
        }
        let cards = cards.ok_or_else(|| LocalError::BuiltWithoutCards { device: self.clone() })?;
        let numbers: Vec<usize> = match self {
            Device::Cards(numbers) => numbers.clone(),
            _ => (0..cards.min(CARDS_MAX)).collect(),
        };
        match numbers.iter().find(|number| **number >= cards) {
            None if !numbers.is_empty() => Ok(numbers.into_iter().map(Place::Card).collect()),
            _ => Err(LocalError::NoSuchCard { device: self.clone(), cards }),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Processor => f.write_str("cpu"),
            Device::AllCards => f.write_str("cuda:all"),
            Device::Cards(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Processor => f.write_str("cpu"),
            Place::Card(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(given: &str) -> Result<Self, DeviceError> {
        let wrong = |why| DeviceError { given: given.chars().take(80).collect(), why };
        let numbers = match given {
            "cpu" => return Ok(Device::Processor),
            "cuda" => return Ok(Device::Cards(vec![0])),
            "cuda:all" => return Ok(Device::AllCards),
            _ => given.strip_prefix("cuda:").ok_or_else(|| wrong(""))?,
        };
        let mut cards = Vec::new();
        for number in numbers.split(',') {
            // Digits only: `parse` would take a plus sign.
            let digits = (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
            let number = number.parse().ok().filter(|_| digits).ok_or_else(|| wrong(""))?;
            if cards.contains(&number) {
                return Err(wrong(", which names a card twice"));
            }
            if cards.len() == CARDS_MAX {
                return Err(wrong(", which names more than 64 cards"));
            }
            cards.push(number);
        }
        Ok(Device::Cards(cards))
    }
}

impl TryFrom<String> for Device {
    type Error = DeviceError;

    fn try_from(given: String) -> Result<Self, DeviceError> {
        given.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_one_word_and_prints_as_it_is_read() {
        for (word, device, printed) in [
            ("cpu", Device::Processor, "cpu"),
            ("cuda", Device::Cards(vec![0]), "cuda:0"),
            ("cuda:3", Device::Cards(vec![3]), "cuda:3"),
            ("cuda:1,0", Device::Cards(vec![1, 0]), "cuda:1,0"),
            ("cuda:all", Device::AllCards, "cuda:all"),
        ] {
            assert_eq!(word.parse(), Ok(device.clone()), "{word}");
            assert_eq!(device.to_string(), printed);
            assert_eq!(serde_json::from_value::<Device>(serde_json::json!(word)).unwrap(), device);
            assert_eq!(serde_json::to_value(&device).unwrap(), printed);
        }
    }

    #[test]
    fn a_word_that_names_no_device_is_told_what_would() {
        let long = format!("cuda:{}", (0..65).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
        for word in
            ["", "gpu", "CPU", "cuda:", "cuda:x", "cuda:+1", "cuda:1,", "cuda: 1", "cuda:99999", "cuda:1,1", &long]
        {
            let error = word.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains("expected cpu, cuda, cuda:N"), "{error}");
            assert!(error.len() < 250, "{error}");
        }
    }

    #[test]
    fn cards_that_are_not_there_are_named_with_those_that_are() {
        let places = |device: Device, cards| device.places(cards).map_err(|error| error.to_string());
        assert_eq!(places(Device::Processor, None), Ok(vec![Place::Processor]));
        assert_eq!(places(Device::AllCards, Some(2)), Ok(vec![Place::Card(0), Place::Card(1)]));
        assert_eq!(places(Device::Cards(vec![1]), Some(2)), Ok(vec![Place::Card(1)]));
        let told = |device, cards, words: &[&str]| {
            let error = places(device, cards).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        told(Device::Cards(vec![0, 2]), Some(2), &["cuda:0,2", "2 cards"]);
        told(Device::AllCards, Some(0), &["cuda:all", "0 cards", "driver", "cpu"]);
        told(Device::AllCards, None, &["cuda:all", "cargo build --release --features cuda"]);
    }
}
