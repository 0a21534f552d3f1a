//! Dependency descriptor (RTP Payload Format For AV1, appendix A): RTP header extension that tells the layers of a frame.

use crate::av1::bits::Bits;
use crate::rtp::extension;
use crate::rtp::session::MediaDescription;

/// Name of the extension in a session description (§A.5).
const URI: &str = "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";
/// Identifiers of templates (§A.4.1, table A.1), and the largest layers.
const TEMPLATES: u32 = 64;
const MAX_SPATIAL: u8 = 3;
const MAX_TEMPORAL: u8 = 7;
/// Length of a descriptor without extended fields.
const SHORT: usize = 3;
/// What a frame is to a decode target (table A.2): not part of it, or nothing there refers to it.
const NOT_PRESENT: u32 = 0;
const DISCARDABLE: u32 = 1;

/// Layers of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameLayers {
    pub(super) spatial: u8,
    pub(super) temporal: u8,
    /// Whether no other frame refers to it.
    pub(super) is_disposable: bool,
}

/// Descriptors of a stream: the templates that the latest one with a structure told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dependencies {
    /// Identifier of the extension element; `None`: the stream has none.
    identifier: Option<u8>,
    structure: Option<Structure>,
}

/// Templates of frames (§A.4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Structure {
    /// Identifier of the first template.
    first: u32,
    /// Number of decode targets and of chains.
    targets: u32,
    templates: Vec<FrameLayers>,
}

impl Dependencies {
    /// Creates the state for a stream, by the identifier that its description maps (`a=extmap`, RFC 8285 §5).
    pub(super) fn of(stream: &MediaDescription) -> Self {
        let mut maps = stream.attributes.iter().filter_map(|attribute| attribute.strip_prefix("extmap:"));
        let identifier = maps.find_map(|map| {
            let (number, uri) = map.split_once(' ')?;
            // A direction may follow the number.
            let number = number.split('/').next()?.parse().ok()?;
            (uri.split_whitespace().next()? == URI).then_some(number)
        });
        Self { identifier, structure: None }
    }

    /// Reads a packet's header extension. `None`: it does not tell.
    pub(super) fn read(&mut self, profile: u16, bytes: &[u8]) -> Option<FrameLayers> {
        self.read_element(extension::find(self.identifier?, profile, bytes)?)
    }

    fn read_element(&mut self, data: &[u8]) -> Option<FrameLayers> {
        let mut bits = Bits::new(data);
        let (_start, _end, template, _number) = (bits.flag()?, bits.flag()?, bits.number(6)?, bits.number(16)?);
        let mut has_own_targets = false;
        if data.len() > SHORT {
            let (has_structure, has_active) = (bits.flag()?, bits.flag()?);
            has_own_targets = bits.flag()?;
            let (_own_differences, _own_chains) = (bits.flag()?, bits.flag()?);
            if has_structure {
                self.structure = Some(Structure::read(&mut bits)?);
            }
            if has_active {
                bits.number(self.structure.as_ref()?.targets)?;
            }
        }
        let structure = self.structure.as_ref()?;
        let index = (template + TEMPLATES - structure.first) % TEMPLATES;
        let layers = *structure.templates.get(index as usize)?;
        if !has_own_targets {
            return Some(layers);
        }
        Some(FrameLayers { is_disposable: is_disposable(&mut bits, structure.targets)?, ..layers })
    }
}

impl Structure {
    fn read(bits: &mut Bits<'_>) -> Option<Self> {
        let (first, targets) = (bits.number(6)?, bits.number(5)? + 1);
        let mut templates = Vec::new();
        let mut layers = FrameLayers::default();
        loop {
            templates.push(layers);
            match bits.number(2)? {
                0 => {}
                1 => layers.temporal += 1,
                2 => (layers.temporal, layers.spatial) = (0, layers.spatial + 1),
                _ => break,
            }
            if layers.temporal > MAX_TEMPORAL || layers.spatial > MAX_SPATIAL || templates.len() >= TEMPLATES as usize {
                return None;
            }
        }
        for template in &mut templates {
            template.is_disposable = is_disposable(bits, targets)?;
        }
        for _ in &templates {
            while bits.flag()? {
                bits.number(4)?;
            }
        }
        let chains = among(bits, targets + 1)?;
        if chains > 0 {
            for _ in 0..targets {
                among(bits, chains)?;
            }
            for _ in 0..templates.len() as u32 * chains {
                bits.number(4)?;
            }
        }
        if bits.flag()? {
            for _ in 0..=layers.spatial {
                bits.number(32)?;
            }
        }
        Some(Self { first, targets, templates })
    }
}

/// Reads what a frame is to each decode target; returns whether no other frame refers to it.
fn is_disposable(bits: &mut Bits<'_>, targets: u32) -> Option<bool> {
    let (mut is_disposable, mut is_present) = (true, false);
    for _ in 0..targets {
        let indication = bits.number(2)?;
        is_present |= indication != NOT_PRESENT;
        is_disposable &= indication <= DISCARDABLE;
    }
    Some(is_disposable && is_present)
}

/// Reads a number below `count` (`ns` of §A.4.1).
fn among(bits: &mut Bits<'_>, count: u32) -> Option<u32> {
    let width = count.ilog2() + 1;
    let short = (1 << width) - count;
    let number = bits.number(width - 1)?;
    if number < short { Some(number) } else { Some((number << 1) - short + bits.number(1)?) }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writer of bits.
    #[derive(Default)]
    struct Writer(Vec<bool>);

    impl Writer {
        fn put(&mut self, value: u32, bits: u32) -> &mut Self {
            self.0.extend((0..bits).rev().map(|bit| value >> bit & 1 == 1));
            self
        }

        fn bytes(&self) -> Vec<u8> {
            self.0
                .chunks(8)
                .map(|bits| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at) == Some(&true))))
                .collect()
        }
    }

    /// Descriptor of the template `first` and the structure of §A.6.1: one spatial layer, three temporal ones, three decode targets, a
    /// chain; or of that with an upper spatial layer of one template.
    pub(in crate::passthrough) fn with_structure(first: u32, has_upper: bool) -> Vec<u8> {
        let mut to = Writer::default();
        to.put(0b11, 2).put(first, 6).put(7, 16).put(0b10000, 5);
        to.put(first, 6).put(2, 5);
        // Templates of layers 0, 0, 1, 2, 2, and the upper one.
        for next in [0, 1, 1, 0] {
            to.put(next, 2);
        }
        if has_upper {
            to.put(2, 2);
        }
        to.put(3, 2);
        // Switch, discardable, not present.
        let targets: [[u32; 3]; 5] = [[2, 2, 2], [2, 2, 2], [2, 1, 0], [1, 0, 0], [1, 0, 0]];
        let upper = [[3, 0, 0]];
        let differences: [&[u32]; 6] = [&[], &[4], &[2], &[1], &[1, 3], &[1]];
        let count = 5 + usize::from(has_upper);
        targets.iter().chain(&upper).take(count).flatten().for_each(|target| {
            to.put(*target, 2);
        });
        for of in &differences[..count] {
            of.iter().for_each(|difference| {
                to.put(1, 1).put(difference - 1, 4);
            });
            to.put(0, 1);
        }
        // One chain of at most three, so that no bits tell by which a target is protected; the distances in it.
        to.put(1, 2);
        (0..count).for_each(|at| {
            to.put(at as u32, 4);
        });
        to.put(1, 1);
        (0..=u32::from(has_upper)).for_each(|layer| {
            to.put(639 << layer, 16).put(359 << layer, 16);
        });
        to.bytes()
    }

    /// Descriptor of a template, without extended fields.
    pub(in crate::passthrough) fn of_template(template: u32) -> Vec<u8> {
        Writer::default().put(0b11, 2).put(template, 6).put(8, 16).bytes()
    }

    fn layers(spatial: u8, temporal: u8, is_disposable: bool) -> FrameLayers {
        FrameLayers { spatial, temporal, is_disposable }
    }

    #[test]
    fn templates_tell_layers() {
        let mut dependencies = Dependencies::default();
        assert_eq!(dependencies.read_element(&of_template(60)), None, "before the structure");
        assert_eq!(dependencies.read_element(&with_structure(60, true)), Some(layers(0, 0, false)));
        let of = |dependencies: &mut Dependencies, template| dependencies.read_element(&of_template(template));
        let read: Vec<_> = (60..67).map(|template| of(&mut dependencies, template % 64)).collect();
        let [base, middle, top] = [layers(0, 0, false), layers(0, 1, false), layers(0, 2, true)];
        assert_eq!(read[..5], [Some(base), Some(base), Some(middle), Some(top), Some(top)]);
        assert_eq!(read[5..], [Some(layers(1, 0, false)), None], "the upper one, and none");
        // Own indications of the three targets: discardable.
        let mut own = Writer::default();
        own.put(0b11, 2).put(61, 6).put(9, 16).put(0b00100, 5).put(0b01_01_00, 6);
        assert_eq!(dependencies.read_element(&own.bytes()), Some(layers(0, 0, true)));
        let cut = with_structure(0, false);
        assert_eq!(dependencies.read_element(&cut[..cut.len() / 2]), None);
        assert_eq!(of(&mut dependencies, 62), Some(middle), "the structure is as before");
    }

    #[test]
    fn the_description_maps_the_identifier() {
        let of = |attribute: &str| {
            let description = format!("m=video 5004 RTP/AVP 96\na=rtpmap:96 AV1/90000\na={attribute}");
            Dependencies::of(&MediaDescription::parse(&description).unwrap()).identifier
        };
        assert_eq!([of(&format!("extmap:12 {URI}")), of(&format!("extmap:3/sendonly {URI} x"))], [Some(12), Some(3)]);
        assert_eq!([of("extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid"), of("ptime:20")], [None, None]);
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_bounded(elements in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..8)) {
            let mut dependencies = Dependencies::default();
            for element in elements {
                if let Some(layers) = dependencies.read_element(&element) {
                    prop_assert!(layers.spatial <= MAX_SPATIAL && layers.temporal <= MAX_TEMPORAL);
                }
            }
        }
    }
}
