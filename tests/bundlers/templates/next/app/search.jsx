'use client';
import { useEffect, useRef, useState } from 'react';
import { SearchClient } from 'dpr-web';

export function Search() {
  const client = useRef(null);
  const [question, setQuestion] = useState('');
  const [state, setState] = useState('');
  const [hits, setHits] = useState([]);

  useEffect(() => {
    const wanted = new URLSearchParams(location.search);
    client.current = SearchClient.create(wanted.get('server'), { device: wanted.get('device') });
    setState(client.current.state);
    return () => client.current.dispose();
  }, []);

  async function search(event) {
    event.preventDefault();
    try {
      const result = await client.current.search(question, { k: 5 });
      setHits(result.hits);
      setState(`answered on ${client.current.device}`);
    } catch (error) {
      setState(`failed: ${error.code} ${error.message} ${error.fix}`);
    }
  }

  return (
    <>
      <form onSubmit={search}>
        <input id="question" value={question} onChange={(event) => setQuestion(event.target.value)} />
      </form>
      <p id="state">{state}</p>
      <ol id="hits">
        {hits.map(({ id, title }) => (
          <li key={id}>{title}</li>
        ))}
      </ol>
    </>
  );
}
