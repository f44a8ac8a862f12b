//! Sentences that give an article its length and its tone and say nothing that a question could turn on.
//! `{a}` and `{b}` are drawn words; the other slots are those of the phrasings.

pub(super) const OF_PERSONS: &[&str] = &[
    "Letters that survive show {o} as {a} in company and {b} at the desk.",
    "Later biographers, most of them {a}, have disagreed about nearly everything else.",
    "No portrait from {p} lifetime is accepted as genuine, although {a} copies circulate.",
    "{P} household accounts, {a} and {b}, are a favourite source of economic historians.",
    "Visitors found the rooms {a} and the conversation {b}.",
    "A legend, {a} and certainly false, has {o} arguing with a weathercock.",
    "{P} reputation rose after a {a} lecture series and fell again within a decade.",
    "The few anecdotes about {p} childhood are {a} and were written down much later.",
    "Colleagues described {p} handwriting as {a}, and copyists asked for double pay.",
    "{S} left no memoir, only a {a} bundle of notes tied with string.",
    "What {s} earned in good years was spent on {a} experiments and {b} friends.",
    "In old age {s} was said to be {a}, though never {b}.",
    "Critics have called the early period {a} and the later one {b}.",
    "A {a} obituary appeared too early and had to be withdrawn.",
    "{P} views on the taxation of wool were {a} even by the standards of the day.",
    "The surviving correspondence runs to several volumes, of which one is {a} and the rest are {b}.",
];

pub(super) const OF_PLACES: &[&str] = &[
    "The climate is {a}, with {b} autumns and a short spring.",
    "Travellers have called the inhabitants {a}, a judgement they repeat with some pride.",
    "The surrounding fields are {a} and were drained in several {b} campaigns.",
    "Old maps show the outline as {a}, with a {b} gap on the eastern side.",
    "The local dialect is {a} and has a dozen words for drizzle.",
    "A {a} inventory of chimneys is among the oldest documents in the archive.",
    "Nothing remains of the earlier fortifications but a {a} mound and some {b} stones.",
    "The road from the south is {a} in winter and {b} for the rest of the year.",
    "Scholars have proposed {a} etymologies for the name, none of them convincing.",
    "Population figures before the last century are {a} and should be read with care.",
    "The annual fair is {a}, although the older one in autumn was {b}.",
    "Guidebooks recommend a {a} walk of about an hour and a {b} inn at the end of it.",
    "Disputes about grazing fill {a} volumes of court records.",
    "Its oldest seal shows a {a} figure that nobody has identified.",
];

pub(super) const OF_THINGS: &[&str] = &[
    "Early accounts are {a} and contradict one another in {b} details.",
    "Scholarly opinion, once {a}, has become {b} in recent decades.",
    "A {a} catalogue devotes eleven pages to the matter without settling it.",
    "Several copies, imitations and {a} forgeries have confused the record.",
    "Contemporaries thought it {a}; their grandchildren found it merely {b}.",
    "The {a} condition of the sources makes any precise statement difficult.",
    "A campaign to protect what is left has been {a} so far.",
    "Schoolchildren learn a {a} rhyme about it.",
    "It is the subject of a {a} monograph and of a {b} reply to that monograph.",
    "The first inventory to mention it is {a} and partly burned.",
    "Restorers and editors have left {a} marks of their own.",
    "Interest was {a} until a {b} exhibition brought it back to notice.",
    "Its later history is {a} and of interest mainly to specialists.",
    "Of the costs, which were {a}, only a summary survives.",
    "A popular but {a} account claims far more than the documents bear out.",
];

pub(super) const ADJECTIVES: &[&str] = &[
    "cautious",
    "generous",
    "dry",
    "unhurried",
    "severe",
    "incomplete",
    "patient",
    "stubborn",
    "cheerful",
    "obscure",
    "damp",
    "elegant",
    "blunt",
    "meticulous",
    "uneven",
    "modest",
    "restless",
    "plain",
    "learned",
    "quarrelsome",
    "faded",
    "lively",
    "sober",
    "tangled",
    "brisk",
    "mild",
    "vague",
    "sturdy",
    "solemn",
    "thrifty",
    "awkward",
    "candid",
    "drafty",
    "frugal",
    "gloomy",
    "hesitant",
    "irregular",
    "jovial",
    "laconic",
    "mannered",
    "neglected",
    "orderly",
    "pedantic",
    "reserved",
    "sceptical",
    "tedious",
    "unfinished",
    "wary",
];

/// Ways to open an article: `{N}` is the name, `{k}` the sort with its article.
pub(super) const OPENINGS_PAST: &[&str] = &[
    "{N} was {k}.",
    "{N} was {k} whose name still turns up in unexpected places.",
    "{N}, {k}, is one of the lesser figures whom every handbook mentions.",
    "Few handbooks leave out {N}, who was {k}.",
];

/// The same for events.
pub(super) const OPENINGS_EVENT: &[&str] = &[
    "The {N} was {k}.",
    "The {N} was {k} that entered the chronicles at once.",
    "Of all that is told about the {N}, {k}, only a part is certain.",
];

/// The same for what still exists and bears a name like a person's or a town's.
pub(super) const OPENINGS_NAMED: &[&str] = &[
    "{N} is {k}.",
    "{N} is {k} of which travellers have often written.",
    "{N}, {k}, has been described more often than visited.",
    "Handbooks describe {N} as {k}.",
];

/// The same for things whose name takes an article.
pub(super) const OPENINGS_THING: &[&str] = &[
    "The {N} is {k}.",
    "The {N} is {k} with a long history of misunderstandings.",
    "The {N}, {k}, is known from a handful of sources.",
];
