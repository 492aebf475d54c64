import type { Messages } from '../../lib/language.svelte';

export const uploads: Messages['uploads'] = {
  allSent: 'Alles gesendet',
  connectionLostUploadResumes: 'Verbindung verloren. Der Upload wird fortgesetzt, sobald das Gerät antwortet.',
  pause: 'Anhalten',
  paused: 'Angehalten',
  resume: 'Fortsetzen',
  resumed: 'fortgesetzt',
  sentOf: (name) => `Gesendet von ${name}`,
  sentSoFar: (sent, size) => `${sent} von ${size}`,
  stopped: 'Gestoppt',
  timeLeft: (time) => `noch ${time}`,
  uploadOf: (name) => `Upload von ${name}`,
  uploadResumesByItself: (why) => `${why}. Der Upload wird von selbst fortgesetzt.`,
  waitingForOtherUploads: 'Wartet auf andere Uploads',
};
