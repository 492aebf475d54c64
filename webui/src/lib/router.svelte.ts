import type { Component } from 'svelte';
import type { Part } from './language.svelte';

/** What a page's component gets: the named parts of its address. */
export type PageProps = { params: Record<string, string> };
/** A page whose address has no named parts takes no properties. */
export type Page = Component<any>;
export type Route = { pattern: string; load: () => Promise<{ default: Page }>; words: Part };

/** Where the reader is. `path` has no query. */
class Location {
  path = $state(location.pathname);
  query = $state(new URLSearchParams(location.search));
}
export const here = new Location();

/** Goes to an address of this page. With replace the way back leaves it out. */
export function go(to: string, options: { replace?: boolean } = {}): void {
  const url = new URL(to, location.href);
  const moved = url.pathname !== location.pathname;
  history[options.replace ? 'replaceState' : 'pushState'](null, '', url);
  read();
  if (moved) scrollTo(0, 0);
}

/** Changes parts of the query, which hold what a page shows; an empty value leaves its part out. */
export function ask(change: Record<string, string>, options: { replace?: boolean } = {}): void {
  const query = new URLSearchParams(here.query);
  for (const [name, value] of Object.entries(change)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  go(here.path + (query.size ? `?${query}` : ''), options);
}

function read(): void {
  here.path = location.pathname;
  here.query = new URLSearchParams(location.search);
}

/** Follows links inside the page without loading it again. */
export function followLinks(): void {
  addEventListener('popstate', read);
  document.addEventListener('click', (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const link = (e.target as Element | null)?.closest('a');
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (/^\/(api|v2|metrics)(\/|$)/.test(link.pathname)) return;
    if (link.pathname === location.pathname && link.hash) return;
    e.preventDefault();
    go(link.href);
  });
}
