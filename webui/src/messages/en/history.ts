import { plural } from '../../lib/plural';

export const history = {
  history: 'History', alerts: 'Alerts', range: 'Range', hour: 'Hour', day: 'Day', week: 'Week', month: 'Month',
  bundle: 'Support bundle', model: 'Model', everyModel: 'Every model', by: 'Split by', total: 'One line', eachModel: 'By model', eachVersion: 'By version', eachCaller: 'By key',
  yesterday: 'Yesterday', lastWeek: 'Last week', csv: 'CSV', throughput: 'Throughput (req/s)', latency: 'Latency', percentile: (p: string) => `${p} latency`, errorRate: 'Error rate', queue: 'Queue time',
  requests: 'requests', errors: 'errors', before: (what: string, when: string) => `${what}, ${when.toLowerCase()}`,
  none: 'No requests in this range', noneAbout: 'The box keeps 30 days of requests, also over a restart.', version: (n: number) => `version ${n}`,
  leftOut: (n: number) => `${n} more with fewer requests are in the CSV file.`,
  error_rate: 'Error rate above, %', p99Above: 'p99 latency above, ms', disk: 'Disk in use above, %', temperature: 'Temperature above, °C', model_down: 'Model is down',
  rules: 'Rules', rulesAbout: 'The box looks at them once a minute. An alert begins after its minutes in sequence, and ends below nine tenths of its bound.',
  rule: (n: number) => `Rule ${n}`, kind: 'Condition', above: 'Bound', minutes: 'For minutes', remove: 'Remove', add: 'Add a rule', repeat: 'Repeat after hours (0: never)',
  targets: 'Whom to tell', webhook: 'Webhook URL', webhookSet: (host: string) => `Set, to ${host}. Leave it empty to keep it.`, webhookOff: 'Remove the webhook', emailServer: 'Mail server (host:port)',
  emailFrom: 'Sender', emailTo: 'Recipients, separated by commas', emailUser: 'User of the mail server', emailPassword: 'Password', passwordSet: 'Set. Leave it empty to keep it.',
  save: 'Save', saved: 'Saved.', test: 'Send a test', tested: (target: string) => `The test reached the ${target}.`, untested: (target: string, error: string) => `The test did not reach the ${target}: ${error}`,
  noTarget: 'There is no webhook and no mail server.', active: 'Active', noneActive: 'No alert is active.', sent: 'Sent', noneSent: 'Nothing has been sent since the start.', attempts: (n: number) => plural(n, { one: '# attempt', other: '# attempts' }), ok: 'sent',
  onlyAdmin: 'Only an admin can change these.', saveFirst: 'Save first: the test uses what is stored.',
};
