// Angular makes workers of the application's own files only: this is the package's.
import 'dpr-web/worker';
