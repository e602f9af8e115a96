// Searches where there are workers without a page.
import { SearchClient } from 'dpr-web';

const [server, question] = process.argv.slice(2);
const client = await SearchClient.connect(server, { device: 'cpu' });
const { hits } = await client.search(question, { k: 5 });
console.log(`answered on ${client.device}: ${hits[0].title}`);
client.dispose();
