import { msg } from './language.svelte';

/** The pages of the navigation, in its order. */
export const pages = () => [
  { to: '/', text: msg.shell.home },
  { to: '/models', text: msg.shell.models },
  { to: '/ensembles', text: msg.shell.ensembles },
  { to: '/steps', text: msg.shell.steps },
  { to: '/activity', text: msg.shell.activity },
  { to: '/settings', text: msg.shell.settings },
  { to: '/api-reference', text: 'API' },
];
