import 'dpr-web/element';

document.querySelector('dpr-search').addEventListener('dpr-select', ({ detail }) => {
  document.getElementById('passage').textContent = detail.text;
});
