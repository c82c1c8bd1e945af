//! Bytes and numbers of an attacker: every kernel answers or declines, and never panics.
//!
//! SPARKLAKE_FUZZ_INPUTS sets the number of inputs, and SPARKLAKE_FUZZ_SEED which ones.

use sparklake_kernels::bytes::{ID_BYTES, Items, Keys, NewItems, Outcome};
use sparklake_kernels::entry;
use sparklake_kernels::fields;
use sparklake_kernels::format::{self, Handle, SNAPPY_RATIO};
use sparklake_kernels::hashing::{Id, record_id, sha256};
use sparklake_kernels::listing;
use sparklake_kernels::named;
use sparklake_kernels::ranges::Format;
use sparklake_kernels::read::{self, COLUMNS, Directory, Ending, Place};
use sparklake_kernels::tables::{Input, Interval, Range};
use sparklake_kernels::tasks::{self, Decisions, Merged, Scope};
use sparklake_kernels::texts;
use sparklake_kernels::verify;
use sparklake_kernels::walks;
use sparklake_kernels::write::{Source, Unit, Writer};

/// A small generator of numbers, the same ones for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }

    /// Returns a number at the edge of something.
    fn odd_number(&mut self) -> i64 {
        match self.below(8) {
            0 => -1,
            1 => i64::MAX,
            2 => i64::MIN,
            3 => i64::from(i32::MAX) + self.below(3) as i64 - 1,
            4 => 1 << self.below(63),
            _ => self.below(300) as i64,
        }
    }

    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..=self.below(3) {
            if !bytes.is_empty() {
                // The ends of blocks have the counts and places.
                let near_end = self.below(3) == 0;
                let size = bytes.len();
                let at =
                    if near_end { size - 1 - self.below(size.min(24)) } else { self.below(size) };
                let edges = [0, 1, 0x7F, 0x80, 0xFF];
                bytes[at] =
                    if self.below(2) == 0 { edges[self.below(5)] } else { self.next() as u8 };
            }
        }
    }
}

struct Table {
    file: Vec<u8>,
    directory: Directory,
    entries: NewItems,
    ids: Vec<Id>,
}

fn stored(key: &[u8], number: u64, chance: &mut Chance) -> Vec<u8> {
    let identity = sha256(&number.to_le_bytes());
    let message: Vec<u8> = [
        &[0x0A, 3, b'a', b'/', b'b', 0x12, 4, 0x08, 0x80, 1, 0x10][..],
        &[7, 0x18, 5, 0x22, 2, b'c', b's', 0x30, 1, 0x3A, 1, b't'],
    ]
    .concat();
    let mut value = vec![64];
    value.extend_from_slice(&identity);
    let message = if chance.below(9) == 0 { &message[..0] } else { &message[..] };
    value.push(2 * message.len() as u8);
    value.extend_from_slice(message);
    value.extend_from_slice(&record_id(key, &sha256(&identity)));
    value
}

fn table(records: u64, compress: bool, chance: &mut Chance) -> Table {
    let (mut keys, mut values) = (NewItems::with_capacity(0, 0), NewItems::with_capacity(0, 0));
    let mut ids = Vec::new();
    for number in 0..records {
        let key = format!("k/{number:05}").into_bytes();
        let value = stored(&key, number, chance);
        ids.push(value[value.len() - ID_BYTES..].try_into().unwrap());
        keys.push(&key).unwrap();
        values.push(&value).unwrap();
    }
    let entries = entry::encode_records(&keys.items().unwrap(), &values.items().unwrap()).unwrap();
    let units = [Unit::Encoded(entries.items().unwrap())];
    let writer = Writer::new(&ids, &[], &units, compress, Vec::new()).unwrap();
    let file = writer.run(&[(b"name".to_vec(), b"value".to_vec())]).unwrap().file;
    let Ending::Directory(directory) = read::read_ending(&file, file.len()).unwrap() else {
        panic!("the whole file was there")
    };
    Table { file, directory, entries, ids }
}

fn places(directory: &Directory) -> Vec<(usize, Place)> {
    let number =
        |column: usize, block: usize| directory.numbers[column * directory.blocks + block] as usize;
    let place = |block| Place {
        handle: Handle { offset: number(read::OFFSET, block), size: number(read::SIZE, block) },
        raw_size: number(read::RAW_SIZE, block),
        count: number(read::COUNT, block),
    };
    (0..directory.blocks).map(|block| (0, place(block))).collect()
}

fn last_ids(directory: &Directory, ids: &[Id]) -> Vec<Id> {
    let mut end = 0;
    let counts = &directory.numbers[..directory.blocks];
    counts
        .iter()
        .map(|count| {
            end += *count as usize;
            ids[end - 1]
        })
        .collect()
}

/// Gives a block of a file the checksum of its bytes.
fn repair(file: &mut [u8], handle: Handle) {
    let kind = file[handle.offset + handle.size];
    let mut block = file[handle.offset..handle.offset + handle.size].to_vec();
    format::put_trailer(&mut block, 0, kind);
    file[handle.offset..handle.offset + block.len()].copy_from_slice(&block);
}

/// Reads all of a file that may be damaged, and writes it again.
fn read_all(file: &[u8]) -> Outcome<()> {
    let Ending::Directory(found) = read::read_ending(file, file.len())? else {
        panic!("the whole file was there")
    };
    let ids = found.ids.clone();
    assert!(found.keys.len() + ids.len() * ID_BYTES <= file.len());
    let (blocks, last_ids) = (places(&found), last_ids(&found, &ids));
    let opened = read::open_blocks(&[file], &blocks, &last_ids);
    if let Ok(opened) = &opened {
        assert!(opened.data.len() <= SNAPPY_RATIO * file.len());
        let items = opened.items()?;
        let _ = (fields::decode(&items), entry::shapes(&items));
    }
    let source = Source {
        content: file,
        base: 0,
        numbers: &found.numbers,
        blocks: found.blocks,
        keys: &found.keys,
    };
    let units = [Unit::Packed { source: 0, first: 0, stop: found.blocks }];
    let made = Writer::new(&ids, &[source], &units, false, Vec::new())?.run(&[])?;
    assert!(made.file.len() <= (SNAPPY_RATIO + 4) * file.len());
    opened.map(|_| ())
}

/// Runs tasks on two files, of which one may be damaged.
fn run_tasks(file: &[u8], other: &[u8], chance: &mut Chance) -> Outcome<()> {
    let range = |bytes| vec![Range { input: Input::Bytes(bytes), id: None, keys: None }];
    let (one, two) = (range(file), range(other));
    let range_records = [3, 64, 1000, 0][chance.below(4)];
    let format = Format { range_records, compress: false, properties: &[], stem: None };
    let [start, middle, stop] = [5, 50, 190].map(|key| format!("k/{key:05}").into_bytes());
    let everything = [Interval { start: b"", stop: None }];
    let parts = [
        Interval { start: &start, stop: Some(&middle) },
        Interval { start: &middle, stop: Some(&stop) },
    ];
    let pieces = if chance.below(2) == 0 { &everything[..] } else { &parts[..] };
    let selected = if chance.below(2) == 0 { &everything[..] } else { &parts[1..] };
    let scope = Scope::new(pieces.to_vec(), selected.to_vec())?;
    let scope = &scope;
    let layers = [range(other), range(file)];
    let _ = tasks::apply(&two, &layers[1..], scope, &format, 10);
    let _ = tasks::merge([&[], &two, &one], scope, &format, 10, None);
    let _ = tasks::merge([&one, &two, &[]], scope, &format, 10, None);
    let Merged { conflicts, .. } = tasks::merge([&two, &one, &two], scope, &format, 10, None)?;
    let kinds: Vec<u8> = conflicts.iter().map(|_| chance.below(4) as u8).collect();
    let entries = NewItems::with_capacity(0, 0);
    let decisions = Decisions { kinds: &kinds, entries: entries.items()? };
    let _ = tasks::merge([&two, &one, &two], scope, &format, 10, Some(&decisions));
    let _ = tasks::diff([&two, &one], scope);
    let expected = [(0, 0), (usize::MAX, usize::MAX)][chance.below(2)];
    let _ = tasks::list(&one, &layers[1..], scope, b"s3://bucket/", expected);
    let (written, _) = tasks::apply(&one, &layers, scope, &format, 10)?;
    assert!(written.iter().all(|each| each.min_key <= each.max_key));
    Ok(())
}

fn hostile_file(table: &Table, chance: &mut Chance) -> Outcome<()> {
    let mut file = table.file.clone();
    let blocks = places(&table.directory);
    let handle = blocks[chance.below(blocks.len())].1.handle;
    chance.damage(&mut file[handle.offset..handle.offset + handle.size + 1]);
    repair(&mut file, handle);
    let _ = run_tasks(&file, &table.file, chance);
    read_all(&file)
}

fn hostile_ending(table: &Table, chance: &mut Chance) -> Outcome<()> {
    let mut file = table.file.clone();
    let data_end = places(&table.directory).last().map_or(0, |(_, place)| place.handle.offset);
    let at = data_end + chance.below(file.len() - data_end);
    chance.damage(&mut file[at..]);
    let start = chance.below(file.len());
    let _ = read::read_ending(&file[start..], file.len());
    let _ = run_tasks(&file, &table.file, chance);
    read_all(&file)
}

fn hostile_directory(table: &Table, chance: &mut Chance) -> Outcome<()> {
    let found = &table.directory;
    let mut block = Vec::new();
    block.extend_from_slice(&(table.ids.len() as u64).to_le_bytes());
    block.extend_from_slice(&(found.blocks as u64).to_le_bytes());
    for number in &found.numbers {
        let odd = chance.below(2 * found.numbers.len()) == 0;
        let number = if odd { chance.odd_number() } else { *number };
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(table.ids.as_flattened());
    block.extend_from_slice(&found.keys);
    if chance.below(2) == 0 {
        let size = block.len();
        chance.damage(&mut block[..size.min(16)]);
    }
    block.truncate(block.len().saturating_sub(chance.below(3) * chance.below(100)));
    let found = read::read_directory(&block, table.file.len())?;
    let source = Source {
        content: &table.file,
        base: if chance.below(2) == 0 { 0 } else { chance.odd_number().min(3) },
        numbers: &found.numbers,
        blocks: found.blocks,
        keys: &found.keys,
    };
    let stop = if chance.below(2) == 0 { found.blocks } else { chance.below(found.blocks + 2) };
    let units = [Unit::Packed { source: chance.below(5) / 4, first: chance.below(4) / 3, stop }];
    Writer::new(&table.ids, &[source], &units, true, Vec::new())?.run(&[])?;
    Ok(())
}

fn hostile_block(table: &Table, chance: &mut Chance) -> Outcome<()> {
    let blocks = places(&table.directory);
    let number = chance.below(blocks.len());
    let (_, mut place) = blocks[number];
    let (start, size) = (place.handle.offset, place.handle.size);
    let mut block = table.file[start..start + size + format::TRAILER_BYTES].to_vec();
    let records: i64 = table.directory.numbers[..=number].iter().sum();
    let last_key = format!("k/{:05}", records - 1).into_bytes();
    place.handle.offset = 0;
    chance.damage(&mut block[..=size]);
    repair(&mut block, place.handle);
    let _ = read::find_stored(&block, (place.handle, place.raw_size), &last_key, b"k/00001");
    let last_id = last_ids(&table.directory, &table.ids)[number];
    match chance.below(6) {
        0 => place.count = chance.odd_number() as usize,
        1 => place.raw_size = chance.odd_number() as usize,
        2 => place.handle.size = chance.odd_number() as usize,
        3 => place.handle.offset = chance.odd_number() as usize,
        _ => (),
    }
    let _ = read::find_stored(&block, (place.handle, place.raw_size), &last_key, b"k/00001");
    let keys = Keys::new(b"k/00001k/00002........", &[0, 7], &[7, 7])?;
    let padded = [&last_key[..], &[0; 8]].concat();
    let lasts = Keys::new(&padded, &[0], &[7])?;
    let _ = read::find_each(&block, &[place], &lasts, &keys, &[0, chance.below(3) as i64 - 1]);
    let blocks = [(chance.below(9) / 8, place)];
    read::open_blocks(&[&block], &blocks, &[last_id])?;
    Ok(())
}

fn hostile_entries(table: &Table, chance: &mut Chance) -> Outcome<()> {
    let last = chance.below(table.ids.len().min(6));
    let mut bounds = table.entries.bounds[..=last + 1].to_vec();
    let mut data = table.entries.data[..bounds[last + 1] as usize].to_vec();
    chance.damage(&mut data);
    if chance.below(4) == 0 {
        let at = chance.below(bounds.len());
        bounds[at] = chance.odd_number() as i32;
    }
    let items = Items::new(&data, &bounds)?;
    let _ = (fields::decode(&items), entry::shapes(&items));
    let _ = listing::of_entries(&items, b"s3://bucket/");
    let _ = named::named(&items, b"s3://bucket/");
    let _ = verify::verify(&items, &table.ids[..=last], b"");
    let _ = ["key", "address", "uri"].map(|form| texts::plain(&items, form, b"k/"));
    let units = [Unit::Encoded(items)];
    Writer::new(&table.ids[..=last], &[], &units, false, Vec::new())?.run(&[])?;
    Ok(())
}

fn hostile_walk(table: &Table, chance: &mut Chance) -> Outcome<()> {
    let count = table.ids.len().min(8);
    let mut numbers = |most: usize| -> Vec<i64> {
        let edge = chance.below(3) == 0;
        let number = |at| if edge && chance.below(3) == 0 { chance.odd_number() } else { at };
        (0..most as i64).map(number).collect()
    };
    let (begins, lengths) = (numbers(3), numbers(3));
    let keys = Keys::new(&table.entries.data[..40], &begins, &lengths)?;
    let _ = (walks::gather(&keys), walks::search(&keys, &keys), walks::paired(&keys, &keys));
    let _ = walks::range_ends(&table.ids[..count], chance.odd_number() as u64);
    Ok(())
}

type Attack = fn(&Table, &mut Chance) -> Outcome<()>;

fn attack(inputs: u64, seed: u64) {
    let mut chance = Chance(seed);
    let tables: Vec<Table> = [(1, false), (5, true), (40, false), (200, true)]
        .map(|(records, compress)| table(records, compress, &mut chance))
        .into();
    let attacks: [Attack; 7] = [
        hostile_block,
        hostile_block,
        hostile_entries,
        hostile_walk,
        hostile_directory,
        hostile_ending,
        hostile_file,
    ];
    let (mut accepted, mut declined) = ([0u64; 7], [0u64; 7]);
    for _ in 0..inputs {
        // Small tree files more often: they cost less.
        let table = &tables[[0, 0, 0, 1, 1, 1, 2, 3][chance.below(8)]];
        let at = chance.below(attacks.len());
        match attacks[at](table, &mut chance) {
            Ok(()) => accepted[at] += 1,
            Err(_) => declined[at] += 1,
        }
    }
    println!("accepted {accepted:?}, declined {declined:?}");
    assert!(accepted.iter().chain(&declined).all(|count| *count > 0), "an attack is no test");
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn hostile_inputs_are_answered_or_declined() {
    let seed = setting("SPARKLAKE_FUZZ_SEED", 1) | 1;
    attack(setting("SPARKLAKE_FUZZ_INPUTS", 100_000), seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
}

#[test]
fn sound_tables_are_accepted() {
    for compress in [false, true] {
        for records in [1, 64, 300, 2000] {
            let table = table(records, compress, &mut Chance(7));
            assert_eq!(read_all(&table.file), Ok(()));
            assert_eq!(run_tasks(&table.file, &table.file, &mut Chance(5)), Ok(()));
            let tail = &table.file[table.file.len() - 60..];
            assert!(matches!(read::read_ending(tail, table.file.len()), Ok(Ending::NeededFrom(_))));
        }
    }
    assert_eq!(COLUMNS, 9);
}
