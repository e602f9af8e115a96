import { announce } from './announce.js';
import { Answers } from './answer.js';
import { announceWebGpu } from './arrival.js';
import { Compare } from './compare.js';
import { Connection, SERVER } from './connection.js';
import { describeCorpus, offerExamples } from './corpus.js';
import { byId } from './dom.js';
import { FetchedList } from './fetched-list.js';
import { Filters } from './filters.js';
import { listenToKeys } from './keys.js';
import { Options } from './options.js';
import { PrivacyChoice } from './privacy.js';
import { ResultList } from './results.js';
import { K, Searcher } from './searcher.js';
import { SentPanel } from './sent-panel.js';
import { settingsControls } from './settings.js';
import { StatusLine } from './status.js';
import { Typing } from './typing.js';

const question = byId<HTMLInputElement>('question');
const status = new StatusLine();
const sent = new SentPanel();
const fetched = new FetchedList();
const options = new Options(() => typing.stop());
const filters = new Filters(() => void searcher.search());
const results = new ResultList(question, (hit) => filters.buttons(hit));
const connection = new Connection(
  (event) => {
    if (event.status === 'worker') fetched.addOfWorker(event.fetched, event.bytes);
    else status.progress(event);
  },
  (request) => sent.add(request),
  (model) => {
    searcher.showModel(model);
    announce(`The server has another model now, ${model.name}. It is in use here too.`);
    status.changed(model.name);
  },
);
const searcher = new Searcher(connection, status, results, () => filters.value, new Answers());
const typing = new Typing(connection, K, {
  busy: (isBusy) => (results.busy = isBusy),
  show: (result, text) => searcher.show(result, text),
  fail: (error) => searcher.fail(error),
});
const settings = settingsControls((next) => void searcher.connect(next));
const compare = new Compare(SERVER, () => question.value.trim(), (request) => sent.add(request));
const privacy = new PrivacyChoice(connection, {
  left() {
    typing.stop();
    searcher.stop();
  },
  entered(mode) {
    filters.isOffered = mode === 'plain';
    if (mode !== 'plain') compare.stop();
  },
});
searcher.onSearch = () => typing.stop();
searcher.onPlainRefused = () => privacy.refusedPlain();
searcher.onResult = (result) => privacy.show(result);

// On a touch screen the focus would bring up the keyboard over the page.
if (matchMedia('(pointer: fine)').matches) question.focus({ preventScroll: true });
byId('search-form').addEventListener('submit', (event) => {
  event.preventDefault();
  void searcher.search();
});
question.addEventListener('input', () => {
  if (!options.isTyping) return;
  searcher.stop();
  typing.input(question.value, filters.value);
});
offerExamples((text) => {
  question.value = text;
  void searcher.search();
});
listenToKeys(question, {
  hasShortcut: () => options.hasShortcut,
  focusFirst: () => results.focusFirst(),
  stop: () => searcher.stop(),
});

void searcher.connect(settings);
void describeCorpus(connection);
announceWebGpu();
