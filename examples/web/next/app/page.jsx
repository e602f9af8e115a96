import { Search } from './search.jsx';

export default function Page() {
  return (
    <main>
      <Search />
    </main>
  );
}
