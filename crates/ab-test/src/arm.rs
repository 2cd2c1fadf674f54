//! Arm of the comparison.

/// Arm of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arm {
    /// Its connections may jump.
    Resume,

    /// Its connections start slowly, and only tell whether they could have jumped.
    Control,
}

impl Arm {
    /// Both arms.
    pub const ALL: [Self; 2] = [Self::Resume, Self::Control];

    /// Returns the name in logs, qlogs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Control => "control",
        }
    }

    /// Returns the arm of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arm| arm.name() == name)
    }

    /// Returns its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        usize::from(self == Self::Control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arm_is_known_by_its_name_and_place() {
        for arm in Arm::ALL {
            assert_eq!((Arm::named(arm.name()), Arm::ALL[arm.index()]), (Some(arm), arm));
        }
        assert_eq!(Arm::named("-"), None);
    }
}
