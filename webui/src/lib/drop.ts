import { get, type Schemas } from './api';
import { tar, type Entry } from './tar';
import { msg } from './language.svelte';

/** One file to upload, from files that were dropped or chosen. */
export type Parcel = { name: string; blob: Blob; what: 'file' | 'folder' };
/** What can be uploaded of files that were dropped or chosen, and why the others cannot. */
export type Gathered = { parcels: Parcel[]; refused: string[] };

const known = /\.(onnx|wasm|pt|gguf|tflite|zip|mar|tar|edgewise-backup)$/i;
/** Python files are programs of all kinds: those are models that name the class of Triton's Python models. */
const python = /\.py$/i;
const pythonClass = 'TritonPythonModel';
/** Models beside which other files may be. */
const owning = /\.(onnx|py|pt|gguf|tflite)$/i;
/** Configurations, and lists of labels. */
const text = /^config\.|\.(pbtxt|txt|names|json|ya?ml)$/i;
/** A network whose weights are in other files is small: names are looked for in so many bytes of it. */
const searched = 256 << 20;

/** Reads dropped items. Folders become archives; accepted files are sent unchanged. */
export async function dropped(items: DataTransferItemList): Promise<Gathered> {
  const roots = [...items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null); // the list is empty after the event
  const folders = new Map<string, Entry[]>();
  const files: File[] = [];
  for (const root of roots) {
    if (root.isDirectory) folders.set(root.name, await walk(root as FileSystemDirectoryEntry, ''));
    else files.push(await open(root as FileSystemFileEntry));
  }
  return gather(files, folders);
}

/** The same for chosen files; files of a chosen folder have a path. */
export function chosen(files: FileList): Promise<Gathered> {
  const folders = new Map<string, Entry[]>();
  const list: File[] = [];
  for (const file of files) {
    const [root, ...rest] = file.webkitRelativePath.split('/');
    if (root && rest.length) folders.set(root, [...(folders.get(root) ?? []), { path: rest.join('/'), file }]);
    else list.push(file);
  }
  return gather(list, folders);
}

export async function gather(files: File[], folders: Map<string, Entry[]>): Promise<Gathered> {
  const all = { parcels: [], refused: [] } as Gathered;
  const add = ({ parcels, refused }: Gathered) => { all.parcels.push(...parcels); all.refused.push(...refused); };
  const strange = files.some((f) => ![known, python, text].some((pattern) => pattern.test(f.name)));
  add(await loose(files, strange ? await ofBackends() : []));
  for (const [name, entries] of folders) {
    const visible = entries.filter((e) => !e.path.split('/').some((part) => part.startsWith('.')));
    const exported = visible.filter((e) => !e.path.includes('/')).map((e) => e.file as File);
    if (visible.length === 0) all.refused.push(msg.shell.folderEmpty(name));
    else if (exported.some((f) => /\.onnx$/i.test(f.name)) && !exported.some((f) => /^(model\.onnx|config\..*)$/i.test(f.name))) add(await loose(exported));
    else add(packed(name, rooted(name, visible)));
  }
  return all;
}

/** The ends of the names of files of models that the box's backends serve; none when the box does not say. */
async function ofBackends(): Promise<string[]> {
  const list = await get<Schemas['Backend'][]>('/backends').catch(() => []);
  return list.flatMap((b) => (b.usable && /\.\w+$/.exec(b.file ?? '')) || []).map((end) => end.toLowerCase());
}

/**
 * Files without a folder: those that belong to the file of a model become one model with it. Such are net.onnx.data, a file that a
 * network names as that of its weights, net.bin beside net.xml, and where it is the only model a configuration and labels, and other
 * Python files. `more` are ends of the names of models' files beside those that the page knows by itself.
 */
export async function loose(files: File[], more: string[] = []): Promise<Gathered> {
  const models = new Set<File>();
  const other = (f: File) => !known.test(f.name) && !python.test(f.name) && more.some((end) => f.name.toLowerCase().endsWith(end));
  for (const file of files) if (known.test(file.name) || other(file) || (python.test(file.name) && (await mentions(file, pythonClass)))) models.add(file);
  const networks = [...models].filter((f) => owning.test(f.name) || other(f));
  const all = { parcels: [], refused: [] } as Gathered;
  const beside = new Map<File, Entry[]>();
  for (const file of files.filter((f) => !models.has(f))) {
    const owner = await ownerOf(file, networks);
    const path = owner && other(owner) && file.name.startsWith(stem(owner) + '.') ? 'model' + file.name.slice(stem(owner).length) : file.name;
    if (owner) beside.set(owner, [...(beside.get(owner) ?? []), { path, file }]);
    else all.refused.push(msg.shell.notFileBoxAccepts(file.name));
  }
  for (const file of models) {
    const others = beside.get(file);
    if (!file.size) all.refused.push(msg.shell.fileEmpty(file.name));
    else if (!others) all.parcels.push({ name: file.name, blob: file, what: 'file' });
    else {
      const name = (await declared(others)) || stem(file);
      const made = packed(name, rooted(name, [{ path: `model.${/\w+$/.exec(file.name)![0].toLowerCase()}`, file }, ...others]));
      all.parcels.push(...made.parcels);
      all.refused.push(...made.refused);
    }
  }
  return all;
}

async function ownerOf(file: File, networks: File[]): Promise<File | undefined> {
  const longest = (list: File[]) => list.sort((a, b) => b.name.length - a.name.length)[0];
  const named = longest(networks.filter((n) => file.name.startsWith(n.name)));
  if (named) return named;
  if (python.test(file.name)) return networks.length === 1 && python.test(networks[0]!.name) ? networks[0] : undefined;
  const twin = networks.filter((n) => !owning.test(n.name) && file.name.startsWith(stem(n) + '.'));
  if (twin.length) return longest(twin);
  if (text.test(file.name)) return networks.length === 1 ? networks[0] : longest(networks.filter((n) => file.name.startsWith(stem(n) + '.')));
  for (const network of networks) if (await mentions(network, file.name)) return network;
  return undefined;
}

/** Whether a network names a file: the places of its weights stand in it as text. */
async function mentions(network: File, name: string): Promise<boolean> {
  const decoder = new TextDecoder();
  let rest = '';
  for (let at = 0; at < Math.min(network.size, searched); at += 1 << 20) {
    const seen = rest + decoder.decode(await network.slice(at, at + (1 << 20)).arrayBuffer(), { stream: true });
    if (seen.includes(name)) return true;
    rest = seen.slice(-name.length);
  }
  return false;
}

const stem = (f: File) => f.name.replace(/\.\w+$/, '');

/** The name that a configuration gives its model, before the lists of tensors, which have names, too. */
async function declared(entries: Entry[]): Promise<string | undefined> {
  const configuration = entries.find((e) => e.path === 'config.pbtxt')?.file;
  if (!configuration) return undefined;
  const head = (await configuration.slice(0, 1 << 20).text()).replaceAll(/#.*/g, '').split(/[[{]/)[0]!;
  return /(?:^|\s)name\s*:\s*"([\w.,-]+)"/.exec(head)?.[1];
}

function packed(name: string, entries: Entry[]): Gathered {
  try {
    return { parcels: [{ name: name + '.tar', blob: tar([...entries].sort((a, b) => (a.path < b.path ? -1 : 1))), what: 'folder' }], refused: [] };
  } catch (thrown) {
    return { parcels: [], refused: [(thrown as Error).message] }; // a path that archives do not hold
  }
}

/** A folder with one model keeps its name, the model name; a folder with several models is a repository. */
export function rooted(name: string, entries: Entry[]): Entry[] {
  const one = entries.some((e) => /^(\d+\/|[^/]+$)/.test(e.path));
  return one ? entries.map((e) => ({ ...e, path: `${name}/${e.path}` })) : entries;
}

function open(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

async function walk(directory: FileSystemDirectoryEntry, prefix: string): Promise<Entry[]> {
  const reader = directory.createReader();
  const found: Entry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    for (const entry of some) {
      const path = prefix + entry.name;
      if (entry.isDirectory) found.push(...(await walk(entry as FileSystemDirectoryEntry, path + '/')));
      else found.push({ path, file: await open(entry as FileSystemFileEntry) });
    }
  }
}
