//! The bindings. Each one checks and borrows its buffers, then works without the interpreter lock.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::mem::take as taken;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::bytes::{self, Items, Keys, NewItems, Outcome, arrays, position, require};
use crate::format::Handle;
use crate::listing::{self, Listing};
use crate::ranges::{Format, Written};
use crate::read::{self, COLUMNS, Ending, FIRST_KEY_BYTES, LAST_KEY_BYTES, Place};
use crate::tables::{Input, Interval, Range};
use crate::tasks::{self, Decisions, Scope};
use crate::walks::ids_of;
use crate::write::{Source, Unit, Writer};
use crate::{entry, fields, hashing, named, texts, verify, walks};
use crate::{files, folder};

/// The number of this interface. It rises when a function changes its arguments or its result:
/// a checkout that moved on does not use the kernels that it built before.
const INTERFACE: u32 = 10;

pyo3::create_exception!(_kernels, Declined, PyException);

type Buffer<'py> = PyReadonlyArray1<'py, u8>;
type Numbers<'py> = PyReadonlyArray1<'py, i64>;
type Bounds<'py> = PyReadonlyArray1<'py, i32>;
type Array<'py, T> = Bound<'py, PyArray1<T>>;
/// The bounds and the bytes of a new column.
type Column<'py> = (Array<'py, i32>, Array<'py, u8>);

impl From<bytes::Declined> for PyErr {
    fn from(_: bytes::Declined) -> Self {
        Declined::new_err("the fallback decides")
    }
}

/// Runs a kernel without the interpreter lock.
///
/// A panic, which would be a defect of the kernel, ends in the fallback, too. Rust prints it.
fn run<T: Send>(py: Python<'_>, kernel: impl FnOnce() -> Outcome<T> + Send) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(kernel)));
    Ok(outcome.unwrap_or(Err(bytes::Declined))?)
}

/// Returns the items of an array, if they lie one after the other.
fn flat<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>) -> Outcome<&'a [T]> {
    array.as_slice().map_err(|_| bytes::Declined)
}

fn column<'py>(py: Python<'py>, items: NewItems) -> Column<'py> {
    (items.bounds.into_pyarray(py), items.data.into_pyarray(py))
}

#[pyfunction]
fn sha256_each<'py>(py: Python<'py>, data: Buffer, bounds: Bounds) -> PyResult<Array<'py, u8>> {
    let (data, bounds) = (flat(&data)?, flat(&bounds)?);
    let hashes = run(py, || Ok(hashing::sha256_each(&Items::new(data, bounds)?)))?;
    Ok(hashes.into_pyarray(py))
}

#[pyfunction]
fn gather<'py>(
    py: Python<'py>,
    data: Buffer,
    starts: Numbers,
    lengths: Numbers,
) -> PyResult<Column<'py>> {
    let (data, starts, lengths) = (flat(&data)?, flat(&starts)?, flat(&lengths)?);
    let items = run(py, || walks::gather(&Keys::new(data, starts, lengths)?))?;
    Ok(column(py, items))
}

#[pyfunction]
fn encode_records<'py>(
    py: Python<'py>,
    keys: Buffer,
    key_bounds: Bounds,
    values: Buffer,
    value_bounds: Bounds,
) -> PyResult<Column<'py>> {
    let (keys, key_bounds) = (flat(&keys)?, flat(&key_bounds)?);
    let (values, value_bounds) = (flat(&values)?, flat(&value_bounds)?);
    let items = run(py, || {
        entry::encode_records(&Items::new(keys, key_bounds)?, &Items::new(values, value_bounds)?)
    })?;
    Ok(column(py, items))
}

#[pyfunction]
fn shapes<'py>(
    py: Python<'py>,
    data: Buffer,
    bounds: Bounds,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let (data, bounds) = (flat(&data)?, flat(&bounds)?);
    let (heads, lengths) = run(py, || entry::shapes(&Items::new(data, bounds)?))?;
    Ok((heads.into_pyarray(py), lengths.into_pyarray(py)))
}

#[pyfunction]
fn search<'py>(
    py: Python<'py>,
    keys: (Buffer, Numbers, Numbers),
    wanted: (Buffer, Numbers, Numbers),
) -> PyResult<(Array<'py, i64>, Array<'py, bool>)> {
    let (data, starts, lengths) = (flat(&keys.0)?, flat(&keys.1)?, flat(&keys.2)?);
    let (others, begins, sizes) = (flat(&wanted.0)?, flat(&wanted.1)?, flat(&wanted.2)?);
    let (places, found) = run(py, || {
        let keys = Keys::new(data, starts, lengths)?;
        Ok(walks::search(&keys, &Keys::new(others, begins, sizes)?))
    })?;
    Ok((places.into_pyarray(py), found.into_pyarray(py)))
}

#[pyfunction]
fn paired<'py>(
    py: Python<'py>,
    left: (Buffer, Numbers, Numbers),
    right: (Buffer, Numbers, Numbers),
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let (data, starts, lengths) = (flat(&left.0)?, flat(&left.1)?, flat(&left.2)?);
    let (others, begins, sizes) = (flat(&right.0)?, flat(&right.1)?, flat(&right.2)?);
    let (at_left, at_right) = run(py, || {
        let left = Keys::new(data, starts, lengths)?;
        Ok(walks::paired(&left, &Keys::new(others, begins, sizes)?))
    })?;
    Ok((at_left.into_pyarray(py), at_right.into_pyarray(py)))
}

#[pyfunction]
fn unequal<'py>(
    py: Python<'py>,
    left: Buffer,
    right: Buffer,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let (left, right) = (flat(&left)?, flat(&right)?);
    let (in_left, in_right) = run(py, || walks::unequal(ids_of(left)?, ids_of(right)?))?;
    Ok((in_left.into_pyarray(py), in_right.into_pyarray(py)))
}

#[pyfunction]
fn found_ids<'py>(py: Python<'py>, ids: Buffer, wanted: Buffer) -> PyResult<Array<'py, i64>> {
    let (ids, wanted) = (flat(&ids)?, flat(&wanted)?);
    let rows = run(py, || walks::found_ids(ids_of(ids)?, ids_of(wanted)?))?;
    Ok(rows.into_pyarray(py))
}

#[pyfunction]
fn range_ends<'py>(py: Python<'py>, ids: Buffer, divisor: u64) -> PyResult<Array<'py, i64>> {
    let ids = flat(&ids)?;
    let ends = run(py, || walks::range_ends(ids_of(ids)?, divisor))?;
    Ok(ends.into_pyarray(py))
}

/// Returns (None, position) to ask for more bytes, or (the directory's parts, 0).
#[pyfunction]
#[allow(clippy::type_complexity)]
fn read_ending<'py>(
    py: Python<'py>,
    tail: Buffer,
    file_bytes: usize,
) -> PyResult<(Option<(Array<'py, u8>, Array<'py, i64>, Bound<'py, PyList>)>, usize)> {
    let tail = flat(&tail)?;
    let directory = match run(py, || read::read_ending(tail, file_bytes))? {
        Ending::NeededFrom(position) => return Ok((None, position)),
        Ending::Directory(directory) => directory,
    };
    let (blocks, mut start) = (directory.blocks, 0);
    let lengths = &directory.numbers[FIRST_KEY_BYTES * blocks..(LAST_KEY_BYTES + 1) * blocks];
    let keys = lengths.iter().map(|length| {
        let begin = start;
        start += *length as usize;
        PyBytes::new(py, &directory.keys[begin..start])
    });
    let keys = PyList::new(py, keys.collect::<Vec<_>>())?;
    let ids = directory.ids.into_flattened().into_pyarray(py);
    Ok((Some((ids, directory.numbers.into_pyarray(py), keys)), 0))
}

/// `places` has, for each data block: its file, offset, size, raw size and count.
#[pyfunction]
fn open_blocks<'py>(
    py: Python<'py>,
    files: Vec<Buffer>,
    places: Numbers,
    last_ids: Buffer,
) -> PyResult<Column<'py>> {
    let files = files.iter().map(flat).collect::<Outcome<Vec<_>>>()?;
    let (places, last_ids) = (flat(&places)?, flat(&last_ids)?);
    let items = run(py, || read::open_blocks(&files, &data_blocks(places)?, ids_of(last_ids)?))?;
    Ok(column(py, items))
}

fn data_blocks(places: &[i64]) -> Outcome<Vec<(usize, Place)>> {
    let (rows, rest) = arrays::<_, 5>(places);
    require(rest.is_empty())?;
    let blocks = rows.iter().map(|[file, place @ ..]| Ok((position(*file)?, data_block(place)?)));
    blocks.collect()
}

fn data_block([offset, size, raw_size, count]: &[i64; 4]) -> Outcome<Place> {
    let handle = Handle { offset: position(*offset)?, size: position(*size)? };
    Ok(Place { handle, raw_size: position(*raw_size)?, count: position(*count)? })
}

type Texts<'py> = Vec<Column<'py>>;
type Times<'py> = Vec<Array<'py, i64>>;

/// Returns path, checksum, address and content type, then size and time.
fn listed<'py>(py: Python<'py>, listing: Listing) -> (Texts<'py>, Times<'py>) {
    let texts = [listing.path, listing.checksum, listing.address, listing.content_type];
    let numbers = [listing.size, listing.mtime];
    let texts = texts.map(|each| column(py, each));
    (texts.into(), numbers.map(|each| each.into_pyarray(py)).into())
}

#[pyfunction]
fn list_entries<'py>(
    py: Python<'py>,
    data: Buffer,
    bounds: Bounds,
    prefix: &[u8],
) -> PyResult<(Texts<'py>, Times<'py>)> {
    let (data, bounds) = (flat(&data)?, flat(&bounds)?);
    let listing = run(py, || listing::of_entries(&Items::new(data, bounds)?, prefix))?;
    Ok(listed(py, listing))
}

#[pyfunction]
fn find_stored<'py>(
    py: Python<'py>,
    block: Buffer,
    size: usize,
    raw_size: usize,
    last_key: &[u8],
    key: &[u8],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let (block, handle) = (flat(&block)?, Handle { offset: 0, size });
    let found = run(py, || read::find_stored(block, (handle, raw_size), last_key, key))?;
    Ok(found.map(|stored| PyBytes::new(py, &stored)))
}

/// `places` has, for each data block: its offset, size, raw size and count.
#[pyfunction]
fn find_each<'py>(
    py: Python<'py>,
    file: Buffer,
    places: Numbers,
    lasts: (Buffer, Numbers, Numbers),
    wanted: (Buffer, Numbers, Numbers),
    at: Numbers,
) -> PyResult<(Column<'py>, Array<'py, i64>)> {
    let (file, places, at) = (flat(&file)?, flat(&places)?, flat(&at)?);
    let (ends, begins, sizes) = (flat(&lasts.0)?, flat(&lasts.1)?, flat(&lasts.2)?);
    let (data, starts, lengths) = (flat(&wanted.0)?, flat(&wanted.1)?, flat(&wanted.2)?);
    let (values, rows) = run(py, || {
        let (blocks, rest) = arrays::<_, 4>(places);
        require(rest.is_empty())?;
        let blocks = blocks.iter().map(data_block).collect::<Outcome<Vec<_>>>()?;
        let last_keys = Keys::new(ends, begins, sizes)?;
        read::find_each(file, &blocks, &last_keys, &Keys::new(data, starts, lengths)?, at)
    })?;
    Ok((column(py, values), rows.into_pyarray(py)))
}

thread_local! {
    /// The buffer of the last tree file of a thread. The next one reuses its memory.
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The largest buffer that a thread holds on to.
const MOST_HELD_BYTES: usize = 1 << 24;

/// `spans` has for each unit: its source with its first and last block, or -1 - its number in
/// `encoded`.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn make_table<'py>(
    py: Python<'py>,
    ids: Buffer,
    sources: Vec<(Buffer, i64, Numbers, Buffer)>,
    encoded: Vec<(Buffer, Bounds)>,
    spans: Numbers,
    compress: bool,
    properties: Vec<(Vec<u8>, Vec<u8>)>,
) -> PyResult<(Bound<'py, PyBytes>, i64, i64)> {
    let (ids, spans) = (flat(&ids)?, flat(&spans)?);
    let mut tables = Vec::with_capacity(sources.len());
    for (content, base, numbers, keys) in &sources {
        let (content, numbers, keys) = (flat(content)?, flat(numbers)?, flat(keys)?);
        let blocks = numbers.len() / COLUMNS;
        tables.push(Source { content, base: *base, numbers, blocks, keys });
    }
    let mut columns = Vec::with_capacity(encoded.len());
    for (data, bounds) in &encoded {
        columns.push((flat(data)?, flat(bounds)?));
    }
    let out = FILE.with(|file| taken(&mut *file.borrow_mut()));
    let table = run(py, || {
        let (rows, rest) = arrays::<_, 3>(spans);
        require(rest.is_empty())?;
        let mut units = Vec::with_capacity(rows.len());
        for [source, first, stop] in rows {
            units.push(if *source < 0 {
                let (data, bounds) = columns.get(position(-1 - *source)?).ok_or(bytes::Declined)?;
                Unit::Encoded(Items::new(data, bounds)?)
            } else {
                let (source, first) = (position(*source)?, position(*first)?);
                Unit::Packed { source, first, stop: position(*stop)? }
            });
        }
        Writer::new(ids_of(ids)?, &tables, &units, compress, out)?.run(&properties)
    })?;
    let file = PyBytes::new(py, &table.file);
    if table.file.capacity() <= MOST_HELD_BYTES {
        FILE.with(|held| *held.borrow_mut() = table.file);
    }
    Ok((file, table.size, table.tombstones))
}

#[pyfunction]
#[allow(clippy::type_complexity)]
fn decode_entries<'py>(
    py: Python<'py>,
    data: Buffer,
    bounds: Bounds,
) -> PyResult<(Vec<Column<'py>>, Vec<Array<'py, i64>>, Array<'py, i64>)> {
    let (data, bounds) = (flat(&data)?, flat(&bounds)?);
    let found = run(py, || fields::decode(&Items::new(data, bounds)?))?;
    let texts = [found.address, found.checksum, found.content_type].map(|each| column(py, each));
    let numbers = [found.size, found.seconds, found.nanos, found.kind];
    let numbers = numbers.map(|each| each.into_pyarray(py));
    Ok((texts.into(), numbers.into(), found.odd.into_pyarray(py)))
}

#[pyfunction]
fn encode_entries<'py>(
    py: Python<'py>,
    texts: Vec<(Buffer, Bounds)>,
    numbers: Vec<Numbers>,
    relative: PyReadonlyArray1<bool>,
    no_metadata: &[u8],
) -> PyResult<Column<'py>> {
    let mut columns = Vec::with_capacity(texts.len());
    for (data, bounds) in &texts {
        columns.push((flat(data)?, flat(bounds)?));
    }
    let numbers = numbers.iter().map(flat).collect::<Outcome<Vec<_>>>()?;
    let relative = flat(&relative)?;
    let items = run(py, || {
        let items = columns.iter().map(|(data, bounds)| Items::new(data, bounds));
        let items = items.collect::<Outcome<Vec<_>>>()?;
        let [keys, address, checksum, content_type] = items[..] else {
            return Err(bytes::Declined);
        };
        let [size, seconds, nanos] = numbers[..] else {
            return Err(bytes::Declined);
        };
        fields::Columns {
            keys,
            address,
            checksum,
            content_type,
            size,
            seconds,
            nanos,
            relative,
            no_metadata,
        }
        .encode()
    })?;
    Ok(column(py, items))
}

#[pyfunction]
fn verify_records(
    py: Python<'_>,
    data: Buffer,
    bounds: Bounds,
    ids: Buffer,
    no_metadata: &[u8],
) -> PyResult<()> {
    let (data, bounds, ids) = (flat(&data)?, flat(&bounds)?, flat(&ids)?);
    run(py, || verify::verify(&Items::new(data, bounds)?, ids_of(ids)?, no_metadata))
}

/// Returns address and checksum, the sizes, and the first halves of the addresses' hashes.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn named_objects<'py>(
    py: Python<'py>,
    data: Buffer,
    bounds: Bounds,
    prefix: &[u8],
) -> PyResult<(Texts<'py>, Array<'py, i64>, Vec<Array<'py, u64>>)> {
    let (data, bounds) = (flat(&data)?, flat(&bounds)?);
    let found = run(py, || named::named(&Items::new(data, bounds)?, prefix))?;
    let texts = [found.address, found.checksum].map(|each| column(py, each));
    let hashes = found.hashes.map(|each| each.into_pyarray(py));
    Ok((texts.into(), found.size.into_pyarray(py), hashes.into()))
}

/// An open folder. `read` returns the keys, sizes and times of the next files, and other names.
#[pyclass]
struct Folder {
    open: folder::Folder,
    path: PathBuf,
}

/// Returns an OSError, which Python makes the class of its number, such as PermissionError.
fn system_error(path: &Path, error: &io::Error) -> PyErr {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.raw_os_error(), text, path.to_owned()))
}

#[pymethods]
impl Folder {
    #[new]
    fn new(path: PathBuf, start: String, skipped: String) -> PyResult<Self> {
        let open = folder::Folder::open(&path, start, skipped);
        Ok(Self { open: open.map_err(|error| system_error(&path, &error))?, path })
    }

    #[allow(clippy::type_complexity)]
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        most: usize,
    ) -> PyResult<(Column<'py>, Array<'py, i64>, Array<'py, i64>, Vec<OsString>)> {
        let files = py.detach(|| self.open.read(most));
        let files = files.map_err(|error| system_error(&self.path, &error))?;
        let numbers = [files.sizes, files.mtimes].map(|each| each.into_pyarray(py));
        let [sizes, mtimes] = numbers;
        Ok((column(py, files.keys), sizes, mtimes, files.others))
    }
}

#[pyfunction]
fn md5_files<'py>(
    py: Python<'py>,
    data: Buffer,
    bounds: Bounds,
    sizes: Numbers,
    most: usize,
) -> PyResult<Column<'py>> {
    let (data, bounds, sizes) = (flat(&data)?, flat(&bounds)?, flat(&sizes)?);
    let items = run(py, || files::md5_files(&Items::new(data, bounds)?, sizes, most))?;
    Ok(column(py, items))
}

/// `form` is that of texts::plain.
#[pyfunction]
fn plain_texts<'py>(
    py: Python<'py>,
    data: Buffer,
    bounds: Bounds,
    form: &str,
    namespace: &[u8],
) -> PyResult<Array<'py, bool>> {
    let (data, bounds) = (flat(&data)?, flat(&bounds)?);
    let plain = run(py, || texts::plain(&Items::new(data, bounds)?, form, namespace))?;
    Ok(plain.into_pyarray(py))
}

/// The bytes of a range, or the path of its file.
#[derive(FromPyObject)]
enum RangeFile<'py> {
    Bytes(Bound<'py, PyBytes>),
    Path(PathBuf),
}

/// The ranges of a side, each with the id, and the first and the last key, that it must have, if any.
type SideRanges<'py> = Vec<(RangeFile<'py>, Option<Bound<'py, PyBytes>>, Ends<'py>)>;
type Ends<'py> = Option<[Bound<'py, PyBytes>; 2]>;
type Stop<'py> = Option<Bound<'py, PyBytes>>;
type Intervals<'py> = Vec<(Bound<'py, PyBytes>, Stop<'py>)>;
type Properties = Vec<(Vec<u8>, Vec<u8>)>;

fn ranges<'a>(side: &'a SideRanges) -> Outcome<Vec<Range<'a>>> {
    let range = |(file, id, ends): &'a (RangeFile, Option<Bound<PyBytes>>, Ends)| {
        let input = match file {
            RangeFile::Bytes(bytes) => Input::Bytes(bytes.as_bytes()),
            RangeFile::Path(path) => Input::Path(path.clone()),
        };
        let id = id.as_ref().map(|id| id.as_bytes().try_into()).transpose();
        let keys = ends.as_ref().map(|keys| keys.each_ref().map(|key| key.as_bytes()));
        Ok(Range { input, id: id.map_err(|_| bytes::Declined)?, keys })
    };
    side.iter().map(range).collect()
}

/// Returns the scope of the intervals of pieces, and of selected intervals.
fn scope_of<'a>(scope: &'a (Intervals, Intervals)) -> Outcome<Scope<'a>> {
    let interval = |(start, stop): &'a (Bound<PyBytes>, Stop)| Interval {
        start: start.as_bytes(),
        stop: stop.as_ref().map(|stop| stop.as_bytes()),
    };
    Scope::new(scope.0.iter().map(interval).collect(), scope.1.iter().map(interval).collect())
}

/// Returns for each range: its piece, id, keys, count, size, tombstones, whether it is closed, and
/// its file, unless that is written.
fn ranges_written<'py>(
    py: Python<'py>,
    written: Vec<Written>,
    in_files: bool,
) -> PyResult<Bound<'py, PyList>> {
    let rows = written.iter().map(|each| {
        let [id, min_key, max_key] =
            [&each.id[..], &each.min_key, &each.max_key].map(|part| PyBytes::new(py, part));
        let file = if in_files { None } else { Some(PyBytes::new(py, &each.file)) };
        let numbers = (each.count, each.size, each.tombstones);
        (each.piece, id, min_key, max_key, numbers, each.is_closed, file)
    });
    PyList::new(py, rows.collect::<Vec<_>>())
}

type Ranges<'py> = Bound<'py, PyList>;

/// Returns the ranges, the changed keys, and the numbers of added, removed and changed ones.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn apply_task<'py>(
    py: Python<'py>,
    base: SideRanges<'py>,
    layers: Vec<SideRanges<'py>>,
    scope: (Intervals<'py>, Intervals<'py>),
    format: (u64, bool, Properties, Option<String>),
    most_keys: usize,
) -> PyResult<(Ranges<'py>, Option<Column<'py>>, (usize, usize, usize))> {
    let (base, scope) = (ranges(&base)?, scope_of(&scope)?);
    let layers = layers.iter().map(ranges).collect::<Outcome<Vec<_>>>()?;
    let (range_records, compress, properties, stem) = &format;
    let (properties, stem) = (&properties[..], stem.as_deref());
    let format = Format { range_records: *range_records, compress: *compress, properties, stem };
    let (written, applied) = run(py, || tasks::apply(&base, &layers, &scope, &format, most_keys))?;
    let ranges = ranges_written(py, written, stem.is_some())?;
    let counts = (applied.added, applied.removed, applied.changed);
    Ok((ranges, applied.keys.map(|keys| column(py, keys)), counts))
}

/// Returns the columns of `list_entries`. `expected` are the numbers of records and of their bytes.
#[pyfunction]
fn list_task<'py>(
    py: Python<'py>,
    base: SideRanges<'py>,
    layers: Vec<SideRanges<'py>>,
    scope: (Intervals<'py>, Intervals<'py>),
    prefix: &[u8],
    expected: (usize, usize),
) -> PyResult<(Texts<'py>, Times<'py>)> {
    let (base, scope) = (ranges(&base)?, scope_of(&scope)?);
    let layers = layers.iter().map(ranges).collect::<Outcome<Vec<_>>>()?;
    let listing = run(py, || tasks::list(&base, &layers, &scope, prefix, expected))?;
    Ok(listed(py, listing))
}

/// Returns the ranges, the changed keys, the differing ones with their flags, and the conflicts.
///
/// `decided` has a kind for each conflict, and the entries of those that are replaced.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn merge_task<'py>(
    py: Python<'py>,
    sides: [SideRanges<'py>; 3],
    scope: (Intervals<'py>, Intervals<'py>),
    format: (u64, bool, Properties, Option<String>),
    most_keys: usize,
    decided: Option<(Buffer<'py>, Buffer<'py>, Bounds<'py>)>,
) -> PyResult<(
    Ranges<'py>,
    Option<Column<'py>>,
    (Column<'py>, Array<'py, u8>),
    Vec<(Bound<'py, PyBytes>, Vec<Option<Bound<'py, PyBytes>>>)>,
)> {
    let [base, source, dest] = sides.each_ref().map(ranges);
    let (base, source, dest, scope) = (base?, source?, dest?, scope_of(&scope)?);
    let (range_records, compress, properties, stem) = &format;
    let (properties, stem) = (&properties[..], stem.as_deref());
    let format = Format { range_records: *range_records, compress: *compress, properties, stem };
    let decisions = match &decided {
        Some((kinds, data, bounds)) => {
            let entries = Items::new(flat(data)?, flat(bounds)?)?;
            Some(Decisions { kinds: flat(kinds)?, entries })
        }
        None => None,
    };
    let merged = run(py, || {
        tasks::merge([&base, &source, &dest], &scope, &format, most_keys, decisions.as_ref())
    })?;
    let ranges = ranges_written(py, merged.written, stem.is_some())?;
    let conflicts = merged.conflicts.iter().map(|each| {
        let stored = [&each.base, &each.source, &each.dest];
        let stored = stored.map(|value| value.as_ref().map(|value| PyBytes::new(py, value)));
        (PyBytes::new(py, &each.key), stored.into())
    });
    let conflicts = conflicts.collect();
    let differing = (column(py, merged.differing), merged.flags.into_pyarray(py));
    Ok((ranges, merged.keys.map(|keys| column(py, keys)), differing, conflicts))
}

/// Returns the differing entries of two sides, and for each key its rows in them.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn diff_task<'py>(
    py: Python<'py>,
    sides: [SideRanges<'py>; 2],
    scope: (Intervals<'py>, Intervals<'py>),
) -> PyResult<([Column<'py>; 2], [Array<'py, i64>; 2])> {
    let [left, right] = sides.each_ref().map(ranges);
    let (left, right, scope) = (left?, right?, scope_of(&scope)?);
    let found = run(py, || tasks::diff([&left, &right], &scope))?;
    let records = [found.left, found.right].map(|items| column(py, items));
    Ok((records, [found.at_left, found.at_right].map(|rows| rows.into_pyarray(py))))
}

/// Has glibc keep freed memory for the next tree file, up to 64 MB.
///
/// To free a mapped block raises the size from which blocks are mapped, and twice that size is
/// what stays. Fresh pages cost more than everything else that is done with them. The memory of
/// the block is never touched, so it costs nothing.
fn keep_freed_memory() {
    const LARGEST_THAT_COUNTS: usize = (1 << 25) - (1 << 13);
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGEST_THAT_COUNTS)));
}

/// Compiled forms of loops over records; `sparklake.graveler.kernels` chooses them.
#[pymodule]
fn _kernels(module: &Bound<'_, PyModule>) -> PyResult<()> {
    keep_freed_memory();
    module.add("INTERFACE", INTERFACE)?;
    module.add("Declined", module.py().get_type::<Declined>())?;
    module.add_function(wrap_pyfunction!(sha256_each, module)?)?;
    module.add_function(wrap_pyfunction!(gather, module)?)?;
    module.add_function(wrap_pyfunction!(encode_records, module)?)?;
    module.add_function(wrap_pyfunction!(shapes, module)?)?;
    module.add_function(wrap_pyfunction!(search, module)?)?;
    module.add_function(wrap_pyfunction!(paired, module)?)?;
    module.add_function(wrap_pyfunction!(unequal, module)?)?;
    module.add_function(wrap_pyfunction!(found_ids, module)?)?;
    module.add_function(wrap_pyfunction!(range_ends, module)?)?;
    module.add_function(wrap_pyfunction!(read_ending, module)?)?;
    module.add_function(wrap_pyfunction!(open_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(list_entries, module)?)?;
    module.add_function(wrap_pyfunction!(find_stored, module)?)?;
    module.add_function(wrap_pyfunction!(find_each, module)?)?;
    module.add_function(wrap_pyfunction!(make_table, module)?)?;
    module.add_function(wrap_pyfunction!(decode_entries, module)?)?;
    module.add_function(wrap_pyfunction!(encode_entries, module)?)?;
    module.add_function(wrap_pyfunction!(verify_records, module)?)?;
    module.add_function(wrap_pyfunction!(named_objects, module)?)?;
    module.add_function(wrap_pyfunction!(apply_task, module)?)?;
    module.add_function(wrap_pyfunction!(list_task, module)?)?;
    module.add_function(wrap_pyfunction!(merge_task, module)?)?;
    module.add_function(wrap_pyfunction!(diff_task, module)?)?;
    module.add_class::<Folder>()?;
    module.add_function(wrap_pyfunction!(md5_files, module)?)?;
    module.add_function(wrap_pyfunction!(plain_texts, module)?)?;
    Ok(())
}
