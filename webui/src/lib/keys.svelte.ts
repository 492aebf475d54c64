import { go } from './router.svelte';

const off = 'edgewise.keys.off';
const pages: Record<string, string> = { h: '/', m: '/models', e: '/ensembles', s: '/steps', a: '/activity', ',': '/settings' };

/** The keys of the page, which the reader can disable (WCAG 2.1.4). */
class Keys {
  enabled = $state(read());

  set(on: boolean): void {
    this.enabled = on;
    try {
      if (on) localStorage.removeItem(off);
      else localStorage.setItem(off, '1');
    } catch {
      // lasts until the page is left
    }
  }
}

function read(): boolean {
  try {
    return localStorage.getItem(off) === null;
  } catch {
    return true;
  }
}

export const keys = new Keys();

/** Listens for "g m" and its kind, for "/", which goes to the search field of a page, and for Ctrl K, which no reader disables. */
export function shortcuts(search: () => void): () => void {
  let first = 0;
  const listen = (e: KeyboardEvent) => {
    const target = e.target as HTMLElement;
    if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === 'k' && !e.defaultPrevented) {
      e.preventDefault();
      if (!document.querySelector('dialog[open]')) search();
      return;
    }
    if (!keys.enabled || e.ctrlKey || e.metaKey || e.altKey || target.closest('input, textarea, select, [contenteditable], [data-keys]') || document.querySelector('dialog[open]')) return;
    if (e.key === '/') {
      const search = document.querySelector<HTMLInputElement>('main input[type=search]');
      if (search) {
        e.preventDefault();
        search.focus();
      }
    } else if (e.key === 'g') first = e.timeStamp;
    else if (e.timeStamp - first < 1200 && pages[e.key]) {
      first = 0;
      go(pages[e.key]!);
    }
  };
  addEventListener('keydown', listen);
  return () => removeEventListener('keydown', listen);
}
