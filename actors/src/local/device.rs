//! Where a model in this process computes, as one word of a configuration or of the command line: the processor, or
//! cards, with a replica on each, or cut over several. It refuses to know how a card is opened.

use super::opening::LocalError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Cards that may be named.
const CARDS_MAX: usize = 64;

/// Where a model computes: `cpu`, `cuda` (the first card), `cuda:1`, `cuda:0,1` (a replica on each), `cuda:0+1` (one model cut
/// over both), `cuda:0+1,2+3` (two replicas, each cut over two) or `cuda:all` (a replica on each that there is).
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
    /// For each replica the cards that it is cut over: two or more, as many for each.
    Cut(Vec<Vec<usize>>),
}

/// Where one engine, or one rank of several, computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Processor,
    Card(usize),
}

/// The places that one engine's model is cut over; most often one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site(pub(crate) Vec<Place>);

/// A word that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "device is `{given}`{why}; expected cpu, cuda, cuda:N, cuda:0,1 (a replica on each), cuda:0+1 (cut over both) or cuda:all"
)]
pub struct DeviceError {
    given: String,
    why: &'static str,
}

impl Device {
    /// Whether it is cards.
    pub fn is_cards(&self) -> bool {
        *self != Device::Processor
    }

    /// Cards over which each replica is cut; 1 where none is.
    pub fn ranks(&self) -> usize {
        match self {
            Device::Cut(replicas) => replicas.first().map_or(1, Vec::len),
            Device::Processor | Device::Cards(_) | Device::AllCards => 1,
        }
    }

    /// Where each of its engines computes, when there are so many cards; `None` if this program was built without them.
    pub(crate) fn sites(&self, cards: Option<usize>) -> Result<Vec<Site>, LocalError> {
        if !self.is_cards() {
            return Ok(vec![Site(vec![Place::Processor])]);
        }
        let cards = cards.ok_or_else(|| LocalError::BuiltWithoutCards { device: self.clone() })?;
        let replicas: Vec<Vec<usize>> = match self {
            Device::Cut(replicas) => replicas.clone(),
            Device::Cards(numbers) => numbers.iter().map(|number| vec![*number]).collect(),
            Device::AllCards | Device::Processor => (0..cards.min(CARDS_MAX)).map(|number| vec![number]).collect(),
        };
        if replicas.is_empty() || replicas.iter().flatten().any(|number| *number >= cards) {
            return Err(LocalError::NoSuchCard { device: self.clone(), cards });
        }
        Ok(replicas.into_iter().map(|cards| Site(cards.into_iter().map(Place::Card).collect())).collect())
    }

    /// As [`Device::sites`], where nothing is cut by the device's word.
    pub(crate) fn places(&self, cards: Option<usize>) -> Result<Vec<Place>, LocalError> {
        if let Device::Cut(_) = self {
            return Err(LocalError::CutElsewhere { device: self.clone() });
        }
        Ok(self.sites(cards)?.into_iter().flat_map(|site| site.0).collect())
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = self.0.iter();
        places.next().map_or(Ok(()), |place| place.fmt(f))?;
        places.try_for_each(|place| match place {
            Place::Processor => f.write_str("+cpu"),
            Place::Card(number) => write!(f, "+{number}"),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Processor => f.write_str("cpu"),
            Device::AllCards => f.write_str("cuda:all"),
            Device::Cards(numbers) => write!(f, "cuda:{}", joined(numbers, ",")),
            Device::Cut(replicas) => {
                let replicas: Vec<String> = replicas.iter().map(|cards| joined(cards, "+")).collect();
                write!(f, "cuda:{}", replicas.join(","))
            }
        }
    }
}

fn joined(numbers: &[usize], by: &str) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(by)
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
        let mut named = Vec::new();
        let mut replicas: Vec<Vec<usize>> = Vec::new();
        for replica in numbers.split(',') {
            let mut cards = Vec::new();
            for number in replica.split('+') {
                let digits = (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
                let number = number.parse().ok().filter(|_| digits).ok_or_else(|| wrong(""))?;
                if named.contains(&number) {
                    return Err(wrong(", which names a card twice"));
                }
                if named.len() == CARDS_MAX {
                    return Err(wrong(", which names more than 64 cards"));
                }
                named.push(number);
                cards.push(number);
            }
            replicas.push(cards);
        }
        let ranks = replicas.first().map_or(1, Vec::len);
        if replicas.iter().any(|cards| cards.len() != ranks) {
            return Err(wrong(", which cuts replicas over different numbers of cards"));
        }
        Ok(if ranks == 1 { Device::Cards(named) } else { Device::Cut(replicas) })
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
            ("cuda:0+1", Device::Cut(vec![vec![0, 1]]), "cuda:0+1"),
            ("cuda:3+2,0+1", Device::Cut(vec![vec![3, 2], vec![0, 1]]), "cuda:3+2,0+1"),
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
        for word in [
            "",
            "gpu",
            "CPU",
            "cuda:",
            "cuda:x",
            "cuda:+1",
            "cuda:1+",
            "cuda:1,",
            "cuda: 1",
            "cuda:99999",
            "cuda:1,1",
            "cuda:1+1",
            "cuda:0+1,2",
            &long,
        ] {
            let error = word.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains("expected cpu, cuda, cuda:N"), "{error}");
            assert!(error.len() < 270, "{error}");
        }
    }

    #[test]
    fn cards_that_are_not_there_are_named_with_those_that_are() {
        let places = |device: Device, cards| device.places(cards).map_err(|error| error.to_string());
        assert_eq!(places(Device::Processor, None), Ok(vec![Place::Processor]));
        assert_eq!(places(Device::AllCards, Some(2)), Ok(vec![Place::Card(0), Place::Card(1)]));
        assert_eq!(places(Device::Cards(vec![1]), Some(2)), Ok(vec![Place::Card(1)]));
        let cut: Device = "cuda:0+1,2+3".parse().unwrap();
        let sites: Vec<String> = cut.sites(Some(4)).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!((sites, cut.ranks()), (vec!["cuda:0+1".to_owned(), "cuda:2+3".to_owned()], 2));
        let error = cut.sites(Some(3)).unwrap_err().to_string();
        assert!(error.contains("cuda:0+1,2+3") && error.contains("3 cards"), "{error}");
        let told = |device, cards, words: &[&str]| {
            let error = places(device, cards).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        told(Device::Cards(vec![0, 2]), Some(2), &["cuda:0,2", "2 cards"]);
        told(cut, Some(4), &["--tp", "commas"]);
        told(Device::AllCards, Some(0), &["cuda:all", "0 cards", "driver", "cpu"]);
        told(Device::AllCards, None, &["cuda:all", "cargo build --release --features cuda"]);
    }
}
