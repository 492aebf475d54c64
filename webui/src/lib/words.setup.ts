import * as english from '../messages/en';
import { language } from './language.svelte';

// Tests call what pages call: all texts are there.
language.table = english;
