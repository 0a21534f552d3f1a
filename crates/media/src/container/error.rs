//! Errors of containers: unreadable files, and those without a track that can be sent.

/// Reason for which a container cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The container is damaged or cut off, or uses what is not supported.
    #[error("the container is damaged, cut off, or of an unknown kind: {0}")]
    Damaged(String),
    /// No track can be sent.
    #[error("no track of the container can be sent: {}", if left_out.is_empty() { "it has none".to_owned() } else { left_out.join("; ") })]
    NoTrack {
        /// The tracks, each with the reason.
        left_out: Vec<String>,
    },
}

impl ContainerError {
    pub(super) fn damaged(error: impl std::fmt::Display) -> Self {
        Self::Damaged(error.to_string())
    }
}
