import { plural } from '../../lib/plural';

export const rollouts = {
  goLiveByStages: 'Go live by stages',
  hasBegun: (version: number) => `Version ${version} goes live by stages.`,
  fromTo: (from: number, to: number) => `Rollout of version ${to} in place of ${from}`,
  states: { running: 'in progress', promoting: 'going live', watching: 'live and watched', reverting: 'going back', done: 'done', rolled_back: 'rolled back', stopped: 'stopped', replaced: 'replaced' },
  promoteNow: 'Promote now',
  stop: 'Stop',
  rollBack: 'Roll back',
  stages: 'Stages',
  live: 'live',
  version: 'Version',
  requests: 'Requests',
  answers: 'Answers',
  errors: 'Errors',
  evidence: 'Evidence that it is worse',
  conditions: { error_rate: 'Error rate', latency: 'Latency', disagreement: 'Disagreement', metric: 'Metric' },
  compared: (n: number, different: number) => `${plural(n, { one: '# answer', other: '# answers' })} compared, ${different} of them different`,
  metricOf: { clients: (name: string) => `${name}, in answers to clients`, shadow: (name: string) => `${name}, in answers to the same requests` },
  events: 'What has happened',
};
