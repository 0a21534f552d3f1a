//! Enumerations with all of their values and the names of these for output.

/// Declares an enumeration with all of its values (`ALL`) and their names for output (`name`).
#[macro_export]
macro_rules! values {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        #[serde(rename_all = "snake_case")]
        $vis enum $name { $($(#[$doc])* $value,)* }

        #[allow(dead_code)]
        impl $name {
            /// All values, in order.
            $vis const ALL: [Self; [$(Self::$value),*].len()] = [$(Self::$value),*];

            /// Returns the name for output.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }
        }
    };
}
