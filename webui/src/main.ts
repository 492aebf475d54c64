import { mount } from 'svelte';
import App from './App.svelte';
import { followLinks } from './lib/router.svelte';
import { colours } from './lib/theme.svelte';
import { who } from './lib/session.svelte';
import './styles/app.css';

colours.apply();
followLinks();
void who.load();
mount(App, { target: document.getElementById('app')! });
