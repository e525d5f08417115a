"""Two hundred operations, four worker processes, and somebody who kills them: the same for every engine.

`jobs` is the server, `app` what the application's modules share, `celery_app` and
`procrastinate_app` are those modules, `hands` starts and kills, `looks` tells what came of it.
"""
