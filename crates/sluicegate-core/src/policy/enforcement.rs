//! Whether a limit is enforced: the switch that is turned while the traffic flows.

/// What becomes of a limit's answers. The order is by strictness: of two, the lesser holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Enforcement {
    /// The limit is not asked at all.
    Off,
    /// The limit counts on its own, as far as its law admits, and its answer is reported; it never denies.
    Shadow,
    /// The limit decides.
    #[default]
    On,
}

impl Enforcement {
    /// All, as the words of policies and answers.
    pub const ALL: [Self; 3] = [Self::On, Self::Shadow, Self::Off];

    /// The word in policies and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }

    /// What a word means.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|enforcement| enforcement.name() == name)
    }
}
