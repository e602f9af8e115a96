import 'dpr-web/worker';
