// The address of a page may hold a question: no request passes it on.
export const metadata = { title: 'dpr-web and Next' };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
