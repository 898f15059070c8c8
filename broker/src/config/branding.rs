//! How the pages look: what must be so, and the looks that come of it.

use std::sync::Arc;

use super::{
    Branding,
    load::Parts,
    places::{Places, join},
};
use crate::branding::{Look, Looks};

/// Finds the faults of `branding`, and of the tenants' own.
pub(super) fn check(parts: &Parts, places: &mut Places) -> Looks {
    let instance = Arc::new(look("branding", &parts.branding, &Look::default(), places));
    let mut looks = Looks { instance: Arc::clone(&instance), ..Looks::default() };
    for (path, tenant) in parts.tenants.iter().filter(|(_, tenant)| tenant.branding != Branding::default()) {
        let look = look(&join(path, "branding"), &tenant.branding, &instance, places);
        looks.tenants.insert(tenant.id.clone(), Arc::new(look));
    }
    looks
}

fn look(path: &str, branding: &Branding, base: &Look, places: &mut Places) -> Look {
    Look::read(branding, base).unwrap_or_else(|faults| {
        faults.into_iter().for_each(|(key, message)| places.fault(join(path, key), message));
        Look::default()
    })
}
