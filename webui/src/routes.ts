import type { Route } from './lib/router.svelte';
import Home from './pages/Home.svelte';

/** Every route of the page. Each is loaded as its own chunk except Home. */
export const routes: Route[] = [
  { pattern: '/', load: async () => ({ default: Home }) },
  { pattern: '/models', load: () => import('./pages/Models.svelte') },
  { pattern: '/models/:name', load: () => import('./pages/model/Model.svelte') },
  { pattern: '/models/:name/:tab', load: () => import('./pages/model/Model.svelte') },
  { pattern: '/ensembles', load: () => import('./pages/ensembles/Ensembles.svelte') },
  { pattern: '/ensembles/:id', load: () => import('./pages/ensembles/Editor.svelte') },
  { pattern: '/steps', load: () => import('./pages/steps/Steps.svelte') },
  { pattern: '/steps/edit', load: () => import('./pages/steps/StepEditor.svelte') },
  { pattern: '/activity', load: () => import('./pages/activity/Activity.svelte') },
  { pattern: '/activity/:tab', load: () => import('./pages/activity/Activity.svelte') },
  { pattern: '/settings', load: () => import('./pages/settings/Settings.svelte') },
  { pattern: '/settings/:tab', load: () => import('./pages/settings/Settings.svelte') },
  { pattern: '/api-reference', load: () => import('./pages/Reference.svelte') },
];
