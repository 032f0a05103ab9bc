//! A map that nearly always has one entry, or none. That one needs no room of its own, because there may be many
//! runs that wait for one thing each.

use std::collections::BTreeMap;

#[derive(Clone, Default)]
pub(crate) enum SmallMap<K, V> {
    #[default]
    None,
    One(K, V),
    Many(BTreeMap<K, V>),
}

impl<K: Ord + Copy, V> SmallMap<K, V> {
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        match self {
            SmallMap::One(known, value) if *known == key => Some(value),
            SmallMap::Many(map) => map.get(&key),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        match self {
            SmallMap::One(known, value) if *known == key => Some(value),
            SmallMap::Many(map) => map.get_mut(&key),
            _ => None,
        }
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        *self = match std::mem::take(self) {
            SmallMap::One(known, other) if known != key => {
                SmallMap::Many(BTreeMap::from([(known, other), (key, value)]))
            }
            SmallMap::Many(mut map) => {
                map.insert(key, value);
                SmallMap::Many(map)
            }
            _ => SmallMap::One(key, value),
        };
    }

    pub(crate) fn for_each(self, mut act: impl FnMut(K, &V)) {
        match self {
            SmallMap::None => {}
            SmallMap::One(key, value) => act(key, &value),
            SmallMap::Many(map) => map.iter().for_each(|(key, value)| act(*key, value)),
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(K, &V) -> bool) {
        match self {
            SmallMap::One(key, value) if !keep(*key, value) => *self = SmallMap::None,
            SmallMap::Many(map) => map.retain(|key, value| keep(*key, value)),
            _ => {}
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        match self {
            SmallMap::One(known, _) if *known == key => match std::mem::take(self) {
                SmallMap::One(_, value) => Some(value),
                _ => None,
            },
            SmallMap::Many(map) => {
                let value = map.remove(&key);
                if map.is_empty() {
                    *self = SmallMap::None;
                }
                value
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::run_log::small_map::SmallMap;
    use std::collections::BTreeMap;

    /// Against an ordinary map, through all three forms and back.
    #[test]
    fn it_is_a_map() {
        let (mut few, mut model) = (SmallMap::default(), BTreeMap::new());
        let mut random = 7_u32;
        for step in 0..2_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (key, act) = (random >> 8 & 3, random >> 16 & 3);
            match act {
                0 => {
                    few.insert(key, step);
                    model.insert(key, step);
                }
                1 => {
                    few.get_mut(key).into_iter().for_each(|value| *value += 1);
                    model.get_mut(&key).into_iter().for_each(|value| *value += 1);
                }
                2 => assert_eq!(few.remove(key), model.remove(&key)),
                _ => {
                    few.retain(|other, _| other != key);
                    model.retain(|other, _| *other != key);
                }
            }
            for key in 0..4 {
                assert_eq!(few.get(key), model.get(&key), "after step {step}");
            }
        }
    }
}
