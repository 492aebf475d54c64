import type { Route } from './lib/router.svelte';
import Home from './pages/Home.svelte';

/** What Ctrl K opens. */
export const search: Omit<Route, 'pattern'> = { load: () => import('./pages/Search.svelte'), words: 'search' };

/** Every route of the page. Each is loaded as its own chunk except Home, with the texts that it shows. */
export const routes: Route[] = [
  { pattern: '/', load: async () => ({ default: Home }), words: 'shell' },
  { pattern: '/models', load: () => import('./pages/Models.svelte'), words: 'models' },
  { pattern: '/models/:name', load: () => import('./pages/model/Model.svelte'), words: 'model' },
  { pattern: '/models/:name/:tab', load: () => import('./pages/model/Model.svelte'), words: 'model' },
  { pattern: '/ensembles', load: () => import('./pages/ensembles/Ensembles.svelte'), words: 'ensembles' },
  { pattern: '/ensembles/:id', load: () => import('./pages/ensembles/Editor.svelte'), words: 'ensembles' },
  { pattern: '/steps', load: () => import('./pages/steps/Steps.svelte'), words: 'steps' },
  { pattern: '/steps/edit', load: () => import('./pages/steps/StepEditor.svelte'), words: 'steps' },
  { pattern: '/activity', load: () => import('./pages/activity/Activity.svelte'), words: 'activity' },
  { pattern: '/activity/:tab', load: () => import('./pages/activity/Activity.svelte'), words: 'activity' },
  { pattern: '/settings', load: () => import('./pages/settings/Settings.svelte'), words: 'settings' },
  { pattern: '/settings/:tab', load: () => import('./pages/settings/Settings.svelte'), words: 'settings' },
  { pattern: '/api-reference', load: () => import('./pages/Reference.svelte'), words: 'reference' },
];
