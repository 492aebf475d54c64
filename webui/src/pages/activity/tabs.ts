import { msg } from '../../lib/language.svelte';
import { who } from '../../lib/session.svelte';

/** The parts of the activity that the reader's role includes. */
export const tabs = () => [
  { id: 'requests', text: msg.activity.requests },
  { id: 'history', text: msg.history.history },
  ...(who.can('operate') ? [{ id: 'alerts', text: msg.history.alerts }, { id: 'logs', text: msg.activity.logs }] : []),
  ...(who.can('admin') ? [{ id: 'audit', text: msg.activity.audit }] : []),
];
