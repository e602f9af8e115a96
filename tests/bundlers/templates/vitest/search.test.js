import { expect, test } from 'vitest';
import { SearchClient } from 'dpr-web';

test('the package is imported, and a client without a worker says so', async () => {
  const client = SearchClient.create(process.env.DPR_SERVER);
  expect(client.state).toBe('idle');
  await expect(client.search('who')).rejects.toMatchObject({ name: 'EncoderError', code: 'no_worker', fix: expect.stringMatching(/\S/) });
  client.dispose();
});
