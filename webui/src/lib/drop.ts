import { tar, type Entry } from './tar';
import { msg } from './language.svelte';

/** One file to upload, from files that were dropped or chosen. */
export type Parcel = { name: string; blob: Blob; what: 'file' | 'folder' };

const known = /\.(onnx|wasm|zip|tar|edgewise-backup)$/i;

/** Reads dropped items. Folders become archives; accepted files are sent unchanged. */
export async function parcels(items: DataTransferItemList): Promise<Parcel[]> {
  const roots = [...items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null);
  const list: Parcel[] = [];
  const files: File[] = [];
  for (const root of roots) {
    if (root.isDirectory) list.push(folder(root.name, await walk(root as FileSystemDirectoryEntry, '')));
    else files.push(await open(root as FileSystemFileEntry));
  }
  return [...loose(files), ...list];
}

/** The same for chosen files; files of a chosen folder have a path. */
export function chosen(files: FileList): Parcel[] {
  const folders = new Map<string, Entry[]>();
  const list: File[] = [];
  for (const file of files) {
    const [root, ...rest] = file.webkitRelativePath.split('/');
    if (root && rest.length) folders.set(root, [...(folders.get(root) ?? []), { path: rest.join('/'), file }]);
    else list.push(file);
  }
  return [...loose(list), ...[...folders].map(([name, entries]) => folder(name, entries))];
}

/** Files without a folder: those that belong to an .onnx file, such as net.onnx.data, become one model with it. */
export function loose(files: File[]): Parcel[] {
  const models = files.filter((f) => /\.onnx$/i.test(f.name));
  const beside = new Map<File, File[]>();
  for (const file of files.filter((f) => !known.test(f.name))) {
    const owner = models.length === 1 ? models[0] : models.filter((m) => file.name.startsWith(stem(m) + '.')).sort((a, b) => b.name.length - a.name.length)[0];
    if (owner) beside.set(owner, [...(beside.get(owner) ?? []), file]);
    else single(file); // which refuses it by name
  }
  return files.filter((f) => known.test(f.name)).map((f) => {
    const others = beside.get(f);
    return others ? folder(stem(f), [{ path: 'model.onnx', file: f }, ...others.map((file) => ({ path: file.name, file }))]) : single(f);
  });
}

const stem = (f: File) => f.name.replace(/\.onnx$/i, '');

function single(file: File): Parcel {
  if (!known.test(file.name)) throw new Error(msg.shell.notFileBoxAccepts(file.name));
  return { name: file.name, blob: file, what: 'file' };
}

function folder(name: string, entries: Entry[]): Parcel {
  const visible = entries.filter((e) => !e.path.split('/').some((part) => part.startsWith('.')));
  if (visible.length === 0) throw new Error(msg.shell.folderEmpty(name));
  visible.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { name: name + '.tar', blob: tar(rooted(name, visible)), what: 'folder' };
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
