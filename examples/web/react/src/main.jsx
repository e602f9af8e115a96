import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { SearchProvider } from 'dpr-web/react';
import { Search } from './search.jsx';

createRoot(document.getElementById('main')).render(
  <StrictMode>
    <SearchProvider url="/">
      <Search />
    </SearchProvider>
  </StrictMode>,
);
