// Searches when the form is sent, and prints the titles found.
export function start(SearchClient, options) {
  const wanted = new URLSearchParams(location.search);
  const [form, question, state, hits] = ['form', 'question', 'state', 'hits'].map((id) => document.getElementById(id));
  const client = SearchClient.create(wanted.get('server'), { device: wanted.get('device'), ...options });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      const result = await client.search(question.value, { k: 5 });
      hits.replaceChildren(...result.hits.map(({ title }) => Object.assign(document.createElement('li'), { textContent: title })));
      state.textContent = `answered on ${client.device}`;
    } catch (error) {
      state.textContent = `failed: ${error.code} ${error.message} ${error.fix}`;
    }
  });
  state.textContent = client.state;
}
