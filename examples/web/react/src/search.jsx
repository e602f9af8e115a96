import { useState } from 'react';
import { useSearch, useSearchClient } from 'dpr-web/react';

export function Search() {
  const client = useSearchClient();
  const [question, setQuestion] = useState('');
  const { hits, status, error, isStale, flush } = useSearch(question, { k: 5, debounce: 200 });
  const onSubmit = (event) => {
    event.preventDefault();
    flush();
  };
  return (
    <form onSubmit={onSubmit}>
      <label>
        Question <input type="search" value={question} onFocus={() => client.preload()} onChange={(event) => setQuestion(event.target.value)} />
      </label>
      {status === 'failed' && <p role="alert">{error.message}</p>}
      <ol style={{ opacity: isStale ? 0.5 : 1 }}>
        {hits.map(({ id, title, text }) => (
          <li key={id} dir="auto">
            <strong>{title}</strong> {text}
          </li>
        ))}
      </ol>
    </form>
  );
}
