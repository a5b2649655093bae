//! Remembers which copy methods do not work from one device to another.

use std::cell::RefCell;

/// The device numbers of a source and its destination.
type Devices = (u64, u64);

/// The copy methods that do not work from one device to another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceLimits {
    pub(crate) reflink_unsupported: bool,
    pub(crate) copy_range_unsupported: bool,
}

/// The known limits of pairs of devices.
#[derive(Debug, Default)]
pub(crate) struct KnownLimits(RefCell<Vec<(Devices, DeviceLimits)>>);

impl KnownLimits {
    pub(crate) fn between(&self, devices: Devices) -> DeviceLimits {
        let known = self.0.borrow();
        let found = known.iter().find(|(pair, _)| *pair == devices);
        found.map_or_else(DeviceLimits::default, |(_, limits)| *limits)
    }

    pub(crate) fn change(&self, devices: Devices, change: impl FnOnce(&mut DeviceLimits)) {
        let mut limits = self.between(devices);
        change(&mut limits);
        let mut known = self.0.borrow_mut();
        known.retain(|(pair, _)| *pair != devices);
        known.push((devices, limits));
    }
}
