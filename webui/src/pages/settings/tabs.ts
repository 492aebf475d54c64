import { msg } from '../../lib/language.svelte';
import { who } from '../../lib/session.svelte';

/** The parts of the settings that the reader's role includes, each with the titles of its sections. */
export function tabs() {
  const t = msg.settings;
  const admin = who.can('admin');
  const person = who.session?.kind === 'person';
  return [
    { id: 'general', text: t.general, sections: [t.thisBox, t.storage, t.inThisBrowser, t.colours, t.shortcuts], shown: true },
    { id: 'me', text: t.you, sections: [t.changeYourPassword, t.sessions], shown: person },
    { id: 'users', text: t.users, sections: [], shown: admin },
    { id: 'keys', text: t.keys, sections: [t.keysForDevicesPrograms], shown: admin },
    { id: 'security', text: t.security, sections: [t.encryption], shown: true },
    { id: 'system', text: t.system, sections: [msg.backends.backends, ...(who.can('operate') ? [t.capacityOf.title] : []), t.update, ...(admin ? [t.factoryReset] : [])], shown: true },
    { id: 'backup', text: t.backup, sections: [t.makeABackup, t.restoreABackup], shown: admin },
    { id: 'configuration', text: t.limits, sections: [t.configuration], shown: admin },
    { id: 'about', text: t.about, sections: [t.licences], shown: true },
  ].filter((tab) => tab.shown);
}
