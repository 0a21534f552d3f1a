//! Errors of containers: unreadable files, and those without a track that can be sent.

/// Reason for which a container cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(std::io::Error),
    /// The container ends before its index, or the first sample.
    #[error("the file is cut off: it ends before its index, or before the first frame")]
    CutOff,
    /// The container is damaged, or uses what is not supported.
    #[error("the container is damaged, or of an unknown kind: {0}")]
    Damaged(String),
    /// No track can be sent.
    #[error("no track of the container can be sent: {}", if left_out.is_empty() { "it has none".to_owned() } else { left_out.join("; ") })]
    NoTrack {
        /// The tracks, each with the reason.
        left_out: Vec<String>,
    },
}

impl From<std::io::Error> for ContainerError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::CutOff,
            _ => Self::Io(error),
        }
    }
}

impl ContainerError {
    /// Error of the reader of MP4, without the place in its source.
    pub(super) fn damaged(error: &shiguredo_mp4::Error) -> Self {
        if error.kind == shiguredo_mp4::ErrorKind::InsufficientBuffer {
            return Self::CutOff;
        }
        let place = error.box_type.map(|kind| format!("{kind}: ")).unwrap_or_default();
        Self::Damaged(format!("{place}{:?} {}", error.kind, error.reason).trim_end().to_owned())
    }
}
