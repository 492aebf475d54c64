export type Theme = 'system' | 'light' | 'dark';

const key = 'edgewise.theme';

function stored(): Theme {
  const value = safely(() => localStorage.getItem(key));
  return value === 'light' || value === 'dark' ? value : 'system';
}

function safely<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null; // the browser keeps nothing for this page
  }
}

/** Which colours the reader wants. */
class Colours {
  theme = $state<Theme>(stored());

  set(theme: Theme): void {
    this.theme = theme;
    safely(() => (theme === 'system' ? localStorage.removeItem(key) : localStorage.setItem(key, theme)));
    this.apply();
  }

  apply(): void {
    if (this.theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }
}

export const colours = new Colours();
